-- Figure 11: server reply, median, ms.
SELECT slot, curve, quantile_disc(server_reply_total_us, 0.5) / 1000 AS value, count(*) AS count
FROM timed WHERE server_reply_total_us IS NOT NULL GROUP BY ALL ORDER BY ALL;
