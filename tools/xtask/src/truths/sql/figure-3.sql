-- Figure 3: requests per second.
SELECT slot, curve, count(*) / (getvariable('slot_us') / 1e6) AS value, count(*) AS count
FROM curves GROUP BY ALL ORDER BY ALL;
