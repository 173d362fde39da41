"""Ways in which programs write a secret: each is an expression over the secret ``s``, for a test and for a function.

They are written with the standard library's own encoders, not with those of the redaction that they test.
"""

import base64
import binascii
import html
import json
import quopri
import re
import shlex
import textwrap
import urllib.parse
import xml.sax.saxutils
from typing import Any

IMPORTS = (
    "import base64, binascii, html, json, quopri, re, shlex, textwrap, urllib.parse, xml.sax.saxutils\n"
    "b64, url64 = base64.b64encode, base64.urlsafe_b64encode\n"
)

SPELLINGS = {
    # As it is, and its parts.
    "plain": "s",
    "stripped": "s.strip()",
    "in a sentence": "f'the key {s} was refused'",
    "glued to others": "'x' + s + 'y'",
    "as a header": "'Authorization: Bearer ' + s.strip()",
    "in a URL": "'https://user:' + urllib.parse.quote(s.strip(), safe='') + '@example.com/'",
    "one line": "max(s.split('\\n'), key=len)",
    "all lines, numbered": "'\\n'.join(f'{n}: {x}' for n, x in enumerate(s.split('\\n')))",
    "indented": "textwrap.indent(s, '    ')",
    "lines joined": "''.join(s.split('\\n'))",
    "lines joined with blanks": "' '.join(s.split())",
    "with CR LF": "s.replace('\\n', '\\r\\n')",
    "lines joined with a visible n": "s.replace('\\n', '\\\\n')",
    "upper": "s.upper()",
    "lower": "s.lower()",
    "wrapped": "'\\n'.join(s[i : i + 24] for i in range(0, len(s), 24))",
    "without its first character": "s[1:]",
    "without its last characters": "s[:-3]",
    "cut by a debugger": "s[:30] + '…'",
    # Base64.
    "base64": "b64(s.encode()).decode()",
    "base64 without padding": "b64(s.encode()).decode().rstrip('=')",
    "base64 for URLs": "url64(s.encode()).decode()",
    "base64 of user:secret": "b64(f'user:{s}'.encode()).decode()",
    "base64 at the second place": "b64(b'x' + s.encode() + b'tail').decode()",
    "base64 at the third place": "b64(b'xy' + s.encode() + b'tail').decode()",
    "base64 for URLs at the second place": "url64(b'x' + s.encode() + b'tail').decode()",
    "base64 for URLs at the third place": "url64(b'xy' + s.encode() + b'tail').decode()",
    "base64 of a line": "b64((s + '\\n').encode()).decode()",
    "base64 of the stripped": "b64(s.strip().encode()).decode()",
    "base64 in lines of mail": "base64.encodebytes(s.encode()).decode()",
    "base64 of UTF-16": "b64(s.encode('utf-16-le')).decode()",
    "base32": "base64.b32encode(s.encode()).decode()",
    "base85": "base64.b85encode(s.encode()).decode()",
    "ascii85": "base64.a85encode(s.encode()).decode()",
    # Hexadecimal, and numbers of bytes.
    "hex": "s.encode().hex()",
    "hex in capitals": "s.encode().hex().upper()",
    "hex with colons": "s.encode().hex(':')",
    "hex with colons in capitals": "s.encode().hex(':').upper()",
    "hex with dashes": "s.encode().hex('-')",
    "hex with dashes in capitals": "s.encode().hex('-').upper()",
    "hex with blanks": "s.encode().hex(' ')",
    "hex with blanks in capitals": "s.encode().hex(' ').upper()",
    "hex of binascii": "binascii.hexlify(s.encode()).decode()",
    "hex in lines of a dump": "'\\n'.join(textwrap.wrap(s.encode().hex(' '), 48))",
    "hex as C": "', '.join(f'0x{b:02x}' for b in s.encode())",
    "hex as C in capitals": "', '.join(f'0x{b:02X}' for b in s.encode())",
    "hex escapes": "''.join(f'\\\\x{b:02x}' for b in s.encode())",
    "decimal bytes": "repr(list(s.encode()))",
    # URLs.
    "percent": "urllib.parse.quote(s, safe='')",
    "percent, slashes kept": "urllib.parse.quote(s)",
    "percent in lower case": "re.sub('%..', lambda m: m[0].lower(), urllib.parse.quote(s, safe=''))",
    "percent for forms": "urllib.parse.quote_plus(s)",
    "a form": "urllib.parse.urlencode({'key': s})",
    "percent for all": "''.join(f'%{b:02X}' for b in s.encode())",
    "percent for all in lower case": "''.join(f'%{b:02x}' for b in s.encode())",
    # JSON, JavaScript, YAML.
    "JSON": "json.dumps({'key': s})",
    "JSON in UTF-8": "json.dumps({'key': s}, ensure_ascii=False)",
    "JSON with escaped slashes": "json.dumps({'key': s}).replace('/', '\\\\/')",
    "JSON for HTML": "re.sub('[<>&\\']', lambda m: f'\\\\u{ord(m[0]):04x}', json.dumps({'key': s}))",
    "JavaScript, all escaped": "''.join(f'\\\\u{ord(c):04x}' for c in s)",
    "JavaScript, all escaped in capitals": "''.join(f'\\\\u{ord(c):04X}' for c in s)",
    "YAML in single quotes": "'key: \\'' + s.replace('\\'', '\\'\\'') + '\\''",
    "YAML as a block": "'key: |\\n' + textwrap.indent(s, '  ')",
    "CSV": "'\"' + s.replace('\"', '\"\"') + '\"'",
    # HTML and XML.
    "HTML": "html.escape(s)",
    "HTML, quotes kept": "html.escape(s, quote=False)",
    "HTML with numbers for quotes": "html.escape(s).replace('&#x27;', '&#39;').replace('&quot;', '&#34;')",
    "HTML, all numbers": "''.join(f'&#{ord(c)};' for c in s)",
    "HTML, all hexadecimal": "''.join(f'&#x{ord(c):x};' for c in s)",
    "XML": "xml.sax.saxutils.escape(s, {'\"': '&quot;', '\\'': '&apos;'})",
    # Python, shells, regular expressions.
    "repr": "repr(s)",
    "repr in a dict": "repr({'headers': {'Authorization': s}})",
    "repr of an error": "repr(ValueError(s))",
    "repr of bytes": "repr(s.encode())",
    "ascii": "ascii(s)",
    "unicode_escape": "s.encode('unicode_escape').decode()",
    "quoted for a shell": "shlex.quote(s)",
    "quoted for a shell with backslashes": "re.sub(r'([^\\w@%+=:,./-])', r'\\\\\\1', s)",
    "quoted for a shell in double quotes": "'\"' + re.sub(r'([\\\\\"$`])', r'\\\\\\1', s) + '\"'",
    "regular expression": "re.escape(s)",
    "mail": "quopri.encodestring(s.encode()).decode()",
    # Two of them.
    "JSON in JSON": "json.dumps({'body': json.dumps({'key': s})})",
    "JSON in a URL": "urllib.parse.quote(json.dumps({'key': s}))",
    "JSON in HTML": "html.escape(json.dumps({'key': s}))",
    "JSON in base64": "b64(json.dumps({'user': 'x', 'key': s}).encode()).decode()",
    "base64 in a URL": "urllib.parse.quote(b64(s.encode()).decode(), safe='')",
    "base64 in base64": "b64(b'auth: ' + b64(s.encode())).decode()",
    "base64 in JSON": "json.dumps({'data': b64(s.encode()).decode()}).replace('/', '\\\\/')",
    "percent twice": "urllib.parse.quote(urllib.parse.quote(s, safe=''), safe='')",
    "percent in base64": "b64(b'key=' + urllib.parse.quote(s, safe='').encode()).decode()",
    "percent in JSON": "json.dumps({'url': 'https://x/?k=' + urllib.parse.quote(s, safe='')})",
    "HTML in JSON": "json.dumps({'page': '<b>' + html.escape(s) + '</b>'})",
    "repr in JSON": "json.dumps({'error': repr(s)})",
    "JSON in repr": "repr(json.dumps({'key': s}))",
}

_NAMES = {
    "base64": base64, "binascii": binascii, "html": html, "json": json, "quopri": quopri, "re": re, "shlex": shlex,
    "textwrap": textwrap, "urllib": urllib, "xml": xml, "b64": base64.b64encode, "url64": base64.urlsafe_b64encode,
}  # fmt: skip


def spelled(secret: str) -> dict[str, str]:
    """The secret in all spellings, by their names."""
    names: dict[str, Any] = {**_NAMES, "s": secret}
    return {name: eval(spelling, {**names}) for name, spelling in SPELLINGS.items()}


def pieces(secret: str, length: int = 16) -> set[str]:
    """What must not be found anywhere: all pieces of this length of the secret and of its usual encodings, whatever
    stands around them. Where the secret is shorter, it is one piece."""
    found: set[str] = set()
    raw = secret.strip().encode()
    texts = [
        secret.strip(),
        raw.hex(),
        raw.hex().upper(),
        raw.hex(":"),
        urllib.parse.quote(secret.strip(), safe=""),
    ]
    for before in range(3):
        inner = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")[4:-4]
        texts += [inner, inner.replace("+", "-").replace("/", "_")]
    for text in texts:
        for line in text.split("\n"):
            if len(line) <= length:
                found |= {line} if len(line) >= 8 else set()
            found.update(line[at : at + length] for at in range(len(line) - length + 1))
    return found
