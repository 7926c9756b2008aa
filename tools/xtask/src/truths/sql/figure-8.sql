-- Figure 8: kinds of hits, % of all hits.
WITH hits AS (
    SELECT slot, count(*) AS count,
           CASE class WHEN 'memory-hit' THEN 'memory' WHEN 'disk-hit' THEN 'disk'
                      WHEN 'ims-hit' THEN 'ims' WHEN 'negative-hit' THEN 'negative' ELSE 'other' END AS curve
    FROM slotted WHERE is_hit GROUP BY slot, curve)
SELECT slot, curve, 100 * count / sum(count) OVER (PARTITION BY slot) AS value, count
FROM hits ORDER BY ALL;
