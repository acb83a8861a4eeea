"""Files that hold no readable text, known by their first bytes, and what to do with each."""

_PICTURE = "run text recognition (OCR) over it and upload the text."
_ARCHIVE = "unpack it and upload the files in it."
_PROGRAM = "upload its source or its documentation."
_RECORDING = "write down what is said in it and upload that."
_OLD_OFFICE = "open it, save it as DOCX or PDF without a password, and upload that."

_STARTS = (
    (b"\x89PNG", "a PNG picture", _PICTURE),
    (b"\xff\xd8\xff", "a JPEG picture", _PICTURE),
    (b"GIF87a", "a GIF picture", _PICTURE),
    (b"GIF89a", "a GIF picture", _PICTURE),
    (b"II*\x00", "a TIFF picture", _PICTURE),
    (b"MM\x00*", "a TIFF picture", _PICTURE),
    (b"\x1f\x8b", "a gzip archive", _ARCHIVE),
    (b"BZh", "a bzip2 archive", _ARCHIVE),
    (b"\xfd7zXZ\x00", "an xz archive", _ARCHIVE),
    (b"\x28\xb5\x2f\xfd", "a Zstandard archive", _ARCHIVE),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", _ARCHIVE),
    (b"Rar!\x1a\x07", "a RAR archive", _ARCHIVE),
    (b"\x7fELF", "a program", _PROGRAM),
    (b"\xca\xfe\xba\xbe", "a compiled Java class", _PROGRAM),
    (b"\x00asm", "a WebAssembly program", _PROGRAM),
    (b"SQLite format 3\x00", "an SQLite database", "export its tables as CSV and upload those."),
    (b"PAR1", "a Parquet file", "export it as CSV or JSON Lines and upload that."),
    (b"{\\rtf", "an RTF file", "open it, save it as DOCX and upload that."),
    (b"%!PS", "a PostScript file", "convert it to PDF and upload that."),
    (b"ID3", "a sound recording", _RECORDING),
    (b"OggS", "a sound recording", _RECORDING),
    (b"fLaC", "a sound recording", _RECORDING),
    (b"RIFF", "a picture, sound or video file", _RECORDING),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old or protected Office file", _OLD_OFFICE),
)
# Whose first bytes aren't among the above, or are damaged: what the ending says.
_NAMED: tuple[tuple[str, str, str], ...] = (
    ("png jpg jpeg jpe gif webp bmp tif tiff heic heif avif ico psd raw", "a picture", _PICTURE),
    ("mp3 wav flac ogg oga opus m4a aac wma aiff", "a sound recording", _RECORDING),
    ("mp4 m4v mov avi mkv webm mpg mpeg wmv", "a video", _RECORDING),
    ("zip gz tgz bz2 xz zst 7z rar tar", "an archive", _ARCHIVE),
    ("exe dll so dylib o a class pyc wasm", "a program", _PROGRAM),
    ("doc xls ppt xlsx pptx", "an Office file", _OLD_OFFICE),
)
_ENDINGS = {
    ending: f"by its name it is {what}, which isn't read: text, Markdown, HTML, PDF, Word, CSV, "
    f"JSON and source code are; {advice}"
    for endings, what, advice in _NAMED
    for ending in endings.split()
}
_TAR = (b"ustar", 257)
_VIDEO = (b"ftyp", 4)
# The name of the stream that holds an encrypted DOCX. Source: [MS-OFFCRYPTO] 2.3.4.4.
_ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")


def named_why(name: str) -> str | None:
    """What the name of a file that is no text says of it, as the rest of a sentence."""
    return _ENDINGS.get(name.rpartition(".")[2].lower())


def unreadable_why(data: bytes) -> str | None:
    """Why such a file can't be read, as the rest of a sentence; None if nothing is against it."""
    if _ENCRYPTED_PACKAGE in data[: 1 << 20] and data.startswith(b"\xd0\xcf\x11\xe0"):
        return "it is protected by a password; save a copy without one and upload that."
    for start, what, advice in _STARTS:
        if data.startswith(start):
            return f"it is {what}; {advice}"
    if data.startswith(_TAR[0], _TAR[1]):
        return f"it is a tar archive; {_ARCHIVE}"
    if data.startswith(_VIDEO[0], _VIDEO[1]):
        return f"it is a video or picture; {_RECORDING}"
    if data.startswith(b"MZ") and b"\0" in data[:64]:
        return f"it is a Windows program; {_PROGRAM}"
    return None
