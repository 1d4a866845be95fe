-- Returns the stored root secret.
-- Index: the primary key of kept_secret.
select secret
from kept_secret
where single = 1
