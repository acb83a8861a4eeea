"""The version of Foreword, from the installed package."""

from importlib.metadata import version

VERSION = version("foreword")
