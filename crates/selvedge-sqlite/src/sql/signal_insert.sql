-- A new signal. Expects the primary key of signals and the index signals_key.
insert into signals ({signal}, payload)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
