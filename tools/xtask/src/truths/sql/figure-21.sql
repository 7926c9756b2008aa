-- Figure 21: disk response time, median, ms: reading; handing over to the store; and until the write was on the disk.
SELECT slot, 'swap-in' AS curve, quantile_disc(swap_in_total_us, 0.5) / 1000 AS value, count(*) AS count
FROM timed WHERE curve = 'all' AND swap_in_total_us IS NOT NULL GROUP BY ALL
UNION ALL
SELECT slot, 'swap-out', quantile_disc(swap_out_total_us, 0.5) / 1000, count(*)
FROM timed WHERE curve = 'all' AND swap_out_total_us IS NOT NULL GROUP BY ALL
UNION ALL
SELECT slot, 'swap-out-disk',
       quantile_disc(greatest(epoch_us(happened) + writes.total_us - epoch_us(began) - swap_out_start_us, 0), 0.5) / 1000, count(*)
FROM timed JOIN (FROM events WHERE event = 'write') AS writes USING (source, cluster)
WHERE curve = 'all' GROUP BY ALL
ORDER BY ALL;
