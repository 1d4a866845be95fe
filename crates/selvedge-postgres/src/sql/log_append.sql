-- Draws the number when all locks of the transaction are held. The shared advisory lock was taken before.
insert into log (at, body)
values (clock_timestamp(), $1)
returning number
