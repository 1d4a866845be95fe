-- Records that classes up to the newest may be removed from now on. The caller holds a lock on the table of classes.
-- Locks: the one row. Index: none; the table has one row, and classes_pkey.
update class_removal
set upto = greatest(upto, (select max(id) from classes))
