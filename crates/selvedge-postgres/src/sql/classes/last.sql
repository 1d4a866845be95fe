-- Returns the highest id of a class, or 0.
-- Locks: none. Index: classes_pkey.
select coalesce(max(id), 0)
from classes
