-- Deletes rows of the inbox by number.
-- Locks: the rows. Index: inbox_pkey.
delete from inbox
where number = any($1)
