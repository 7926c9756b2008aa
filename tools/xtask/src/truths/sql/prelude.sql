-- Slots of 20 minutes in UTC, and the groups of paper 001.
SET VARIABLE slot_us = 20 * 60 * 1000000;
CREATE OR REPLACE VIEW slotted AS
SELECT *,
       epoch_us(began) // getvariable('slot_us') * getvariable('slot_us') / 1e6 AS slot,
       class IN ('memory-hit', 'disk-hit', 'ims-hit', 'negative-hit', 'revalidated', 'stale') AS is_hit,
       -- The peer that was asked had it, or a proxy beyond: neither a hit here nor a miss.
       class IN ('miss', 'uncachable') AND coalesce(hierarchy IN ('parent', 'sibling', 'node') AND (peer_hit OR farther_hit), false) AS is_peer_hit,
       class IN ('miss', 'collapsed') AND NOT is_peer_hit AS is_miss
FROM requests;
-- A request once for each curve that it counts in.
CREATE OR REPLACE VIEW curves AS
FROM slotted, (VALUES ('all'), ('hit'), ('miss')) AS three(curve)
WHERE curve = 'all' OR curve = 'hit' AND is_hit OR curve = 'miss' AND is_miss;
-- Times leave out tunnels, and what client or origin broke off.
CREATE OR REPLACE VIEW timed AS
FROM curves WHERE class <> 'tunnel' AND NOT coalesce(client_aborted OR origin_aborted, false);
