-- Figure 10: proxy connect, median, ms, of requests with an outgoing connection.
SELECT slot, curve, quantile_disc(proxy_connect_total_us, 0.5) / 1000 AS value, count(*) AS count
FROM timed WHERE proxy_connect_total_us IS NOT NULL GROUP BY ALL ORDER BY ALL;
