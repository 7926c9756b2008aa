-- Figure 7: document and byte hit ratio, %.
SELECT slot,
       100 * count(*) FILTER (is_hit) / count(*) AS documents,
       100 * sum(bytes_out) FILTER (is_hit) / sum(bytes_out) AS bytes,
       count(*) AS count
FROM slotted WHERE class <> 'tunnel' GROUP BY ALL ORDER BY ALL;
