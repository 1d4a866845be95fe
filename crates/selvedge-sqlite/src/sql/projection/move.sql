-- Moves the projection, if it has the expected position.
-- Index: the primary key of projection.
-- Parameters: ?1 the expected position, ?2 the next
update projection
set entry = ?2
where single = 1
  and entry = ?1
