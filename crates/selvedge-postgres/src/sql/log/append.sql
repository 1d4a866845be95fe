-- Appends an entry and returns its number. Runs last in a transaction, after the shared writers' lock and all row
-- locks: so entries that change the same row have numbers in the order of their commits.
-- Locks: the partition of the day, which only conflicts with creating or dropping it. Index: none.
insert into log (at, body)
values ({now}, $1)
returning number
