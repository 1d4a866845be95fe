-- Inserts a history page.
-- Index: the primary key of history_pages.
-- Parameters: ?1 execution, ?2 page, ?3 lines
insert into history_pages (execution, page, lines)
values (?1, ?2, ?3)
