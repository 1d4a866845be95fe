-- Inserts a frame.
-- Index: the primary key of frames.
-- Parameters: ?1 execution, ?2 attempt, ?3 number, ?4 kind, ?5 best_effort, ?6 at, ?7 data, ?8 correlation id
insert into frames (execution, attempt, {frame})
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
