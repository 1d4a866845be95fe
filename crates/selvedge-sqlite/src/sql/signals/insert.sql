-- Inserts a signal.
-- Index: the primary key of signals, signals_key.
-- Parameters: ?1 to ?11 as {signal}, ?12 payload
insert into signals ({signal}, payload)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
