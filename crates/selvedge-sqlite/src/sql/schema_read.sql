select version, minimum_reader
from selvedge_schema
