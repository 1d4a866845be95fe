-- Draws the number when all locks of the transaction are held, but for that on the day's partition, for which only whoever
-- drops or makes it makes others wait. The shared advisory lock was taken before.
insert into log (at, body)
values (clock_timestamp(), $1)
returning number
