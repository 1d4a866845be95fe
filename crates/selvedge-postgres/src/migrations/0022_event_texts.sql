-- Replaces the character U+0000 in the data of events that earlier builds wrote for the view. Postgres cannot convert JSON that
-- contains it to jsonb, so one such text failed every query that converts the data. In JSON it is a backslash (92) and u0000, except
-- after another backslash: pairs of backslashes are set aside as the character 1, which JSON cannot contain. Backslashes are not
-- written as such, so that standard_conforming_strings does not matter.
update projected_events
set data = replace(
  replace(replace(data::text, repeat(chr(92), 2), chr(1)), chr(92) || 'u0000', chr(92) || 'ufffd'),
  chr(1),
  repeat(chr(92), 2)
)::json
where position(chr(92) || 'u0000' in data::text) > 0;
