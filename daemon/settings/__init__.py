"""Everything that an operator can say to a broker, and the errors when it is said wrong.

`sections` has every key with its type, limits, default and meaning; `reading` puts the layers together;
`checks` has what concerns several keys at once; `reference` prints the commented default file and the
reference page from the same place.
"""

from daemon.settings.reading import ConfigError, Problem, load
from daemon.settings.sections import Settings

__all__ = ["ConfigError", "Problem", "Settings", "load"]
