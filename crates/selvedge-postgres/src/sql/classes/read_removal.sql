-- Returns the highest class id at the time of the last removal.
-- Locks: none. Index: none; the table has one row.
select upto
from class_removal
