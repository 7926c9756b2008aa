-- Figure 24: stages of misses that asked a server themselves, % of the sum of their medians; a stage that a request did not have counts 0.
WITH medians AS (
    SELECT slot, count(*) AS count,
           quantile_disc(CASE WHEN reused_client THEN 0 ELSE coalesce(client_connect_total_us, 0) END, 0.5) AS client_connect,
           quantile_disc(coalesce(proxy_connect_total_us, 0), 0.5) AS proxy_connect,
           quantile_disc(coalesce(server_reply_total_us, 0), 0.5) AS server_reply,
           quantile_disc(coalesce(proxy_reply_total_us, 0), 0.5) AS proxy_reply
    FROM timed WHERE curve = 'miss' AND class = 'miss' GROUP BY ALL)
SELECT slot, curve, 100 * us / greatest(sum(us) OVER (PARTITION BY slot), 1) AS value, count
FROM (UNPIVOT medians ON client_connect, proxy_connect, server_reply, proxy_reply INTO NAME curve VALUE us)
ORDER BY ALL;
