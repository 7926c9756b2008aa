-- Figure 5: median response time, ms.
SELECT slot, curve, quantile_disc(total_us, 0.5) / 1000 AS value, count(*) AS count
FROM timed GROUP BY ALL ORDER BY ALL;
