-- Expects the primary key of history_pages.
-- ?1 execution, ?2 page, ?3 lines
insert into history_pages (execution, page, lines)
values (?1, ?2, ?3)
