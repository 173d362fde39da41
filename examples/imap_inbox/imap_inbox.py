import email
import email.policy
import imaplib
import ssl

from pydantic import Field

from functory.sources import IncomingEvent, SourceConfig, SourcePlugin


class Mailbox(SourceConfig):
    host: str
    user: str = Field(pattern=r"^[^\s\"\\]{1,200}$")
    password_secret: str
    port: int = 993
    mailbox: str = Field("INBOX", pattern=r"^[^\r\n\"\\]{1,200}$")
    every: float = Field(10, ge=0.1)
    ca_file: str | None = None


class Inbox(SourcePlugin):
    kind, summary, types, runs = "imap", "emails in a mailbox", ("mail.received",), True
    Config = Mailbox

    def run(self, context):
        config, tls = context.config, ssl.create_default_context(cafile=context.config.ca_file)
        with imaplib.IMAP4_SSL(config.host, config.port, ssl_context=tls, timeout=30) as imap:
            imap.login(config.user, context.secret(config.password_secret))
            while not context.stop_event.is_set():
                ok(imap.select(f'"{config.mailbox}"', readonly=True))
                epoch = int(imap.response("UIDVALIDITY")[1][0])
                last = context.cursor[1] if context.cursor and context.cursor[0] == epoch else 0
                for uid in sorted(map(int, ok(imap.uid("SEARCH", f"UID {last + 1}:*"))[0].split())):
                    if uid > last:  # n:* always names the newest email, even one below n
                        found = ok(imap.uid("FETCH", str(uid), "(BODY.PEEK[]<0.100000>)"))
                        mails = [read_mail(part[1]) for part in found if isinstance(part, tuple)]
                        events = [
                            IncomingEvent("mail.received", data, key=f"{epoch}/{uid}") for data in mails
                        ]
                        context.put(events, cursor=[epoch, uid])
                context.clear_problem()
                context.stop_event.wait(config.every)


def ok(answer):
    if answer[0] != "OK":
        raise OSError(answer[1][0].decode(errors="replace"))
    return answer[1]


def read_mail(raw):
    try:
        mail = email.message_from_bytes(raw, policy=email.policy.default)
        body = mail.get_body(("plain", "html"))
        heads = {
            name.lower(): str(mail[name] or "") for name in ("From", "To", "Subject", "Date", "Message-ID")
        }
        return heads | {"text": body.get_content() if body else ""}
    except Exception as error:  # an email may hold anything; one that cannot be read must not stop the others
        return {"problem": type(error).__name__, "text": raw[:10_000].decode("ascii", "replace")}
