-- Deletes the summary documents of an execution.
-- Index: the primary key of summaries.
-- Parameters: ?1 execution
delete from summaries
where execution = ?1
