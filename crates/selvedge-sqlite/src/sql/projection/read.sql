-- Returns the position of the projection.
-- Index: the primary key of projection.
select entry
from projection
where single = 1
