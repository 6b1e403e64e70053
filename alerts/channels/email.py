"""E-mail over SMTP with TLS: plain text and HTML, one thread per incident."""

from __future__ import annotations

import hashlib
import html
import smtplib
import ssl
from dataclasses import dataclass
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import formatdate
from typing import Literal

from pydantic import Field, field_validator, model_validator

from alerts._hang_up import opened
from alerts._text import cut, one_line
from alerts.channels._api import ChannelPlugin, ChannelSection
from alerts.notification import Notification, Outcome, Rejected, Retry, Sent
from alerts.secret import Secret, SecretError, one_of

TIMEOUT_SECONDS = 10.0
SUBJECT_CHARACTERS = 200
PICTURE_ID = "gpus@runwatch.invalid"
_IMPORTANCE = {"critical": "high", "warning": "normal", "info": "low"}


class EmailSection(ChannelSection):
    """`tls`: `tls` from the first byte (465), `starttls` (587), or `none` for a relay on this machine."""

    host: str
    port: int | None = Field(default=None, ge=1, le=65535)
    tls: Literal["tls", "starttls", "none"] = "starttls"
    username: str | None = None
    password: Secret | None = None
    password_file: str | None = None
    sender: str
    to: tuple[str, ...] = Field(min_length=1)
    ca_file: str | None = None

    @field_validator("sender", "to")
    @classmethod
    def _addresses(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for address in [value] if isinstance(value, str) else value:
            try:
                if not Address(addr_spec=address).domain:
                    raise ValueError
            except Exception as error:
                raise ValueError(f"{address!r} is not an e-mail address") from error
        return value

    @model_validator(mode="after")
    def _password_goes_with_a_name(self) -> EmailSection:
        if (self.secret is None) != (self.username is None):
            raise ValueError("username and password (or password_file) go together")
        if self.secret is not None and self.tls == "none":
            raise ValueError("a password is not sent without TLS: use tls: starttls or tls: tls")
        return self

    @property
    def secret(self) -> Secret | None:
        return one_of("password", self.password, self.password_file)

    @property
    def server_port(self) -> int:
        return self.port if self.port is not None else {"tls": 465, "starttls": 587, "none": 25}[self.tls]


@dataclass(frozen=True, slots=True)
class Email:
    section: EmailSection

    def send(self, notification: Notification, minimal: bool = False) -> Outcome:
        section, secret = self.section, self.section.secret
        try:
            password = secret.reveal() if secret is not None else None
        except SecretError as error:
            return Retry(str(error))
        mail = message(section, notification, minimal)
        try:
            smtp = self._connected()
            try:
                if password is not None and section.username is not None:
                    smtp.login(section.username, password)
                refused = smtp.send_message(mail)
            finally:
                _say_goodbye(smtp)
        except smtplib.SMTPRecipientsRefused as error:
            codes = [code for code, _ in error.recipients.values()]
            text = f"{section.host} refused every recipient ({', '.join(map(str, codes))})"
            return Retry(text) if any(code < 500 for code in codes) else Rejected(text)
        except smtplib.SMTPAuthenticationError as error:
            text = f"{section.host} does not accept the username and password ({error.smtp_code})"
            return Rejected(text) if error.smtp_code >= 500 else Retry(text)
        except smtplib.SMTPResponseException as error:
            said = (
                error.smtp_error.decode("utf-8", "replace") if isinstance(error.smtp_error, bytes) else error.smtp_error
            )
            said = said.replace(password, "<secret>") if password else said
            text = f"{section.host}: SMTP {error.smtp_code}: {one_line(said, 200)}"
            return Rejected(text) if error.smtp_code >= 500 else Retry(text)
        except smtplib.SMTPNotSupportedError:
            return Rejected(f"{section.host} does not offer what is configured (STARTTLS or a login)")
        except ssl.SSLError:
            return Retry(f"{section.host}: its TLS certificate is not accepted")
        except (smtplib.SMTPException, OSError) as error:
            return Retry(f"{section.host}: {type(error).__name__}")
        return Sent(trouble=f"{len(refused)} of {len(section.to)} recipients refused" if refused else "")

    def _connected(self) -> smtplib.SMTP:
        section = self.section
        context = ssl.create_default_context(cafile=section.ca_file)
        if section.tls == "tls":
            smtp: smtplib.SMTP = _WatchedTls(
                section.host, section.server_port, timeout=TIMEOUT_SECONDS, context=context
            )
        else:
            smtp = _Watched(section.host, section.server_port, timeout=TIMEOUT_SECONDS)
        if section.tls == "starttls":
            try:
                smtp.starttls(context=context)
            except BaseException:
                smtp.close()
                raise
            opened(smtp.sock)
        return smtp


def _say_goodbye(smtp: smtplib.SMTP) -> None:
    """Whatever becomes of it: a mail that was taken is not sent again."""
    try:
        smtp.quit()
    except (smtplib.SMTPException, OSError):
        smtp.close()


class _Watched(smtplib.SMTP):
    """Its socket can be shut while it waits for a greeting that never comes."""

    def _get_socket(self, host: str, port: int, timeout: float) -> object:
        sock = super()._get_socket(host, port, timeout)  # type: ignore[misc]  # not in the stubs
        opened(sock)
        return sock


class _WatchedTls(smtplib.SMTP_SSL):
    def _get_socket(self, host: str, port: int, timeout: float) -> object:
        sock = super()._get_socket(host, port, timeout)  # type: ignore[misc]
        opened(sock)
        return sock


def message(section: EmailSection, notification: Notification, minimal: bool) -> EmailMessage:
    mail = EmailMessage()
    mail["Subject"] = cut(one_line(notification.title), SUBJECT_CHARACTERS)
    mail["From"] = section.sender
    mail["To"] = ", ".join(section.to)
    mail["Date"] = formatdate(notification.at)
    thread = f"<{_digest(notification.dedup_key)}@runwatch.invalid>"
    mail["Message-ID"] = (
        f"<{_digest(f'{notification.dedup_key}|{notification.kind}|{notification.at}')}@runwatch.invalid>"
    )
    mail["References"] = thread
    mail["In-Reply-To"] = thread
    mail["Importance"] = _IMPORTANCE[notification.severity.label]
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(notification.title if minimal else notification.text, cte="quoted-printable")
    if not minimal:
        mail.add_alternative(as_html(notification), subtype="html", cte="quoted-printable")
        _show_picture(mail, notification.picture)
    return mail


def _show_picture(mail: EmailMessage, picture: bytes | None) -> None:
    page = mail.get_body(("html",))
    if picture is not None and isinstance(page, EmailMessage):
        page.add_related(picture, "image", "png", cid=f"<{PICTURE_ID}>", filename="gpus.png", disposition="inline")


def as_html(notification: Notification) -> str:
    title, _, rest = notification.text.partition("\n")
    links = " · ".join(
        f'<a href="{html.escape(link.url, quote=True)}">{html.escape(link.name)}</a>' for link in notification.links
    )
    alt = "power and utilization per GPU over the last half hour"
    picture = f'<p><img src="cid:{PICTURE_ID}" alt="{alt}"></p>' if notification.picture_base64 else ""
    return (
        f"<!doctype html><html><body><h3>{html.escape(title)}</h3><p>{links}</p>{picture}"
        f"<pre>{html.escape(rest.strip())}</pre></body></html>"
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


PLUGIN = ChannelPlugin("email", EmailSection, Email)
