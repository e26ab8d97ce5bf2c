"""The data: sections of raw values, and resolved views of them."""

from collections.abc import Mapping

from .interpolation import resolve

DEFAULTS = "defaults"


class Config:
    """Sections in the order of the file."""

    def __init__(self):
        self._sections = {}

    def add_section(self, name):
        self._sections.setdefault(name, {})

    def set(self, section, key, value):
        self.add_section(section)
        self._sections[section][key] = value

    def sections(self):
        return [name for name in self._sections if name != DEFAULTS]

    def keys(self, section):
        """The keys of a section, those of [defaults] that it lacks at the end."""
        own = list(self._sections[section])
        return own + [key for key in self._sections.get(DEFAULTS, {}) if key not in own]

    def raw(self, section, key):
        """The value as written. Raises KeyError."""
        values = self._sections[section]
        if key in values:
            return values[key]
        return self._sections.get(DEFAULTS, {})[key]

    def get(self, section, key, default=None):
        """The resolved value, or `default` where section or key do not exist."""
        try:
            self.raw(section, key)
        except KeyError:
            return default
        return resolve(self, section, key)

    def __getitem__(self, section):
        if section not in self._sections:
            raise KeyError(section)
        return Section(self, section)

    def __contains__(self, section):
        return section in self._sections

    def __iter__(self):
        return iter(self.sections())


class Section(Mapping):
    """Read-only view of one section with its references resolved."""

    def __init__(self, config, name):
        self._config = config
        self.name = name

    def __getitem__(self, key):
        self._config.raw(self.name, key)
        return resolve(self._config, self.name, key)

    def __iter__(self):
        return iter(self._config.keys(self.name))

    def __len__(self):
        return len(self._config.keys(self.name))
