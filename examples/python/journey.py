"""The journey from a customer to a withdrawal in Python, with the standard library only.

The program calls the sandbox, which runs in another terminal. It reads one-time codes from the
sandbox's control, in place of a person with a phone. Each run needs a fresh sandbox. Copy Service,
described, once, Receiver and verify.

    go run ./cmd/lending-sandbox -control
    python3 examples/python/journey.py http://127.0.0.1:8080

For https (-tls sandbox.pem), set SSL_CERT_FILE=sandbox.pem to trust the sandbox.
"""

import base64
import datetime
import decimal
import hashlib
import hmac
import http.client
import http.server
import json
import pathlib
import queue
import re
import socket
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request


class Refused(Exception):
    """A 4xx: the service did not execute the mutation. Fix the request, then send it again."""


class NotSent(Exception):
    """No connection: the request did not reach the service. It may be sent again."""


class Unknown(Exception):
    """The service may have executed the mutation. Check with a read before sending it again."""


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """The service never redirects, and urllib would send the token to the target of a redirect."""
    def redirect_request(self, *_):
        return None


class Service:
    """Calls the service, or the control of a sandbox, each request once."""

    def __init__(self, base, token=""):
        self.base, self.token = base.rstrip("/"), token
        self.opener = urllib.request.build_opener(NoRedirects)

    def get(self, path, **query):
        return self.call("GET", path, None, query)

    def post(self, path, body=None, **query):
        return self.call("POST", path, body, query)

    def call(self, method, path, body, query):
        url = self.base + path + ("?" + urllib.parse.urlencode(query) if query else "")
        headers = {"Accept": "application/json"}
        if self.token:
            headers["Authorization"] = "Bearer " + self.token
        if body is not None:
            headers["Content-Type"], body = "application/json", json.dumps(body, default=float).encode()
        request = urllib.request.Request(url, body, headers, method=method)
        what = method + " " + path  # for errors: the query can hold personal data
        try:
            with self.opener.open(request, timeout=30) as response:
                answer = response.read()
                # Amounts are numbers with cents, which Decimal keeps.
                return json.loads(answer, parse_float=decimal.Decimal) if answer else None
        except urllib.error.HTTPError as error:
            refused = 400 <= error.code < 500 and error.code != 408
            raise (Refused if refused else Unknown)(f"{what}: {error.code}") from None
        except urllib.error.URLError as error:
            if isinstance(error.reason, (ConnectionRefusedError, socket.gaierror)):
                raise NotSent(f"{what}: no connection to {self.base}; is the sandbox running?") from None
            raise Unknown(f"{what}: the response is lost") from None
        except (OSError, http.client.HTTPException, ValueError):  # ValueError: the response is not JSON
            raise Unknown(f"{what}: the response is lost") from None


def described(base):
    """What openapi.yaml says of each operation: its path, x-effect, x-retry, x-check-with. No reader of YAML is needed."""
    with urllib.request.urlopen(base + "/openapi.yaml", timeout=30) as response:
        text = response.read().decode()
    operations = {}
    for path, method, lines in re.findall(r"(?m)^  (/\S+):\n    (get|post):\n((?:      .*\n)+)", text):
        said = dict(re.findall(r"(?m)^      (operationId|x-[a-z-]+): (.*)$", lines))
        said["route"], said["path"] = f"{method.upper()} {path}", path
        said["checks"] = re.findall(r"\w+", said.get("x-check-with", ""))
        operations[said["operationId"]] = said
    return operations


def once(service, operations, name, ids, send, wait):
    """Sends a mutation, and again only if the description allows it. None: the reads show that it happened.

    wait returns when the service executes nothing late any more: ask its owner how long, in minutes. Of the reads any
    change counts as the mutation, also one of another program: then the mutation can be missing, and is not doubled.
    """
    retry, checks = operations[name]["x-retry"], operations[name]["checks"]
    def look():
        return [service.get(operations[check]["path"].format(**ids)) for check in checks]
    before = look() if retry == "check" else None
    try:
        return send()
    except Unknown:
        if retry == "check":
            wait()
            if look() != before:
                return None
        elif retry != "safe":
            raise  # a person decides
        return send()


def verify(secret, body, signature):
    """Whether the service signed these bytes: the raw body, before any parsing."""
    mac = hmac.new(secret.encode(), body, hashlib.sha256)
    expected = "sha256=" + "-".join(f"{byte:02X}" for byte in mac.digest())
    return hmac.compare_digest(expected.encode(), signature.encode())  # in constant time


class Receiver(http.server.BaseHTTPRequestHandler):
    """Receives webhooks. A real receiver uses https and saves the event before it responds."""

    secret = ""
    accepted = queue.Queue()

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length) if 0 <= length < 1 << 20 else b""
        signature = self.headers.get("abp-webhook-signature", "")
        genuine = bool(self.secret) and verify(self.secret, body, signature)
        if genuine:
            self.accepted.put((body, signature))
        self.send_response(204 if genuine else 401)
        self.end_headers()

    def log_message(self, *_):
        """No log."""


def sign_in(service, control):
    name = "partner@example.com"
    answer = service.post("/api/Authenication/login", {"username": name, "password": "Partner-Pass-1"})
    if answer["requiresTwoFactor"]:
        code = control.get("/two-factor-code", username=name)
        answer = service.post("/api/Authenication/validate-two-factor", {"username": name, "code": code})
    if not answer["token"]:
        sys.exit("the sign-in failed")
    print("Signed in with a password and a two-factor code.")
    service.token = answer["token"]


def subscribe(service, partner):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/webhooks"  # the sandbox allows http on the same machine
    service.post("/api/Webhook/register", {"webhookUri": url, "webhooks": ["WB_Loan_Withdrawal_Completed"]}, partnerId=partner)
    Receiver.secret = service.get("/api/Webhook/get-subscription", partnerId=partner)["secret"]
    print("Registered a webhook and read the secret for its signatures.")
    return url


def apply(service):
    customer = service.post("/api/Application/create-customer", {
        "firstName": "Ada", "lastName": "Lovelace", "email": "ada@example.com",
        "password": "Analytical-Engine-1", "mobileNumber": "(415) 555-0100"})["id"]
    application = service.post("/api/Application/create-application", {
        "customerId": customer, "businessName": "Lovelace Analytics", "businessZip": "94105",
        "extraInformation": {"years": "7"}}, sendLink="false")
    print("Created a customer and an application.")
    service.post(f"/api/Application/add-or-update-banking-data/{application}", {"accounts": [{
        "accountNumber": "000123456789", "balance": "48210.55",
        "transactions": [{"date": "2026-08-03", "description": "Invoice 1001", "amount": "12500.00"}]}]})
    service.get(f"/api/Application/process-application/{application}")  # a GET that changes state: never send it twice
    offer = service.get(f"/api/Application/application-offer/{application}")
    print(f"Sent bank data. The service offers {offer['amount']}.")
    return customer, application


def approve(service, application):
    approval = "/api/ApplicationApproval"
    service.post(f"{approval}/add-company-details/{application}", {"legalName": "Lovelace Analytics LLC"})
    service.post(f"{approval}/add-primary-applicant-details/{application}", {"firstName": "Ada", "lastName": "Lovelace"})
    account = service.get(f"{approval}/get-all-bank-accounts/{application}")[0]["id"]
    service.post(f"{approval}/set-primary-bank-account/{application}/{urllib.parse.quote(account, safe='')}")
    for document in service.get(f"{approval}/get-required-documents/{application}"):
        service.post(f"{approval}/submit-required-document/{application}", base64.b64encode(b"%PDF-1.7 ...").decode(),
                     supportingDocumentId=document["supportingDocumentId"], fileType=document["fileType"], fileName="scan.pdf")
    image = base64.b64encode(b"\x89PNG ...").decode()
    for applicant in service.get(f"{approval}/get-all-applicants/{application}"):
        service.post(f"{approval}/sign-contract/{application}/{applicant['id']}", {
            "ipAddress": "203.0.113.7", "mimeType": "image/png", "signature": image, "signature2": image})
    print("Added the details, the account and the documents, and signed the contract.")


def withdrawal(service, control, application, loan, amount):
    """Starts a withdrawal, and returns the function that confirms it."""
    calculation = {"amount": amount, "percentOfIncome": 10, "terms": 6, "fixedRepaymentCalculation": True}
    service.post("/api/Calculation/application-invoice-calculation", calculation, applicationId=application)
    begun = service.post(f"/api/Loan/make-withdrawal-invoice/{loan}", {"calculation": calculation})
    confirmation = {"amount": begun["amount"], "advanceRate": begun["advanceRate"], "otp": control.get("/otp", loan=loan),
                    "dateUTC": datetime.datetime.now(datetime.timezone.utc).isoformat()}
    return lambda: service.post(f"/api/Loan/confirm-withdrawal-invoice/{loan}", confirmation)


def withdraw(service, control, operations, application, loan):
    route = operations["confirmWithdrawalInvoice"]["route"]
    confirm = withdrawal(service, control, application, loan, 2500.00)
    print("Started a withdrawal. The customer receives a one-time password.")
    control.post("/fail", {"route": route, "fault": {"resetAfter": True}})
    answer = once(service, operations, "confirmWithdrawalInvoice", {"loanId": loan}, confirm, lambda: control.post("/wait", {}))
    print("Confirmed the withdrawal and lost the response, as ordered:", "the answer is missing." if answer is None else answer)
    print("Executions in the sandbox:", control.get("/executed", route=route, about=loan))


def faults():
    """The faults that a caller meets, of the list that the Go client is tested with, as faults of the sandbox."""
    rows = pathlib.Path(__file__).parents[2] / "testdata/conformance.json"
    for row in json.loads(rows.read_text().replace("{{foreign}}", "partner.invalid"))["faults"]:
        outcome, head = row["mutation"].get("outcome", ""), re.match(r"HTTP/1.1 ([2-5]\d\d) ", row.get("raw", ""))
        if "client" in row or not outcome or row["mutation"]["arrivals"] != 1 or row["name"].startswith("101"):
            continue
        if status := row.get("status") or head and int(head[1]):
            fault = {"status": status, "contentType": "application/json", "header": {k: [v] for k, v in row.get("header", {}).items()}}
            fault |= {"body": row["body"]} if "body" in row else {"cutBody": 1} if head else {}
            executed = fault | {"executes": True}
        else:
            fault, executed = {"resetBefore": True}, {"late": "20ms"} if row["then"] == "hang" else {"resetAfter": True}
        if not outcome.startswith("rejected"):
            yield row["name"], executed, Unknown
        if not outcome.startswith("done"):
            yield row["name"], fault, Refused if outcome.startswith("rejected") else Unknown


def never_twice(service, control, operations, customer, application, loan):
    """Meets each fault with a mutation of each kind: the description tells what to do."""
    ids, tried, persons = {"customerId": customer, "applicationId": application, "loanId": loan}, 0, 0
    for name, begin in {
        "createApplication": lambda: lambda: service.post("/api/Application/create-application", {"customerId": customer}),
        "confirmWithdrawalInvoice": lambda: withdrawal(service, control, application, loan, 10.00),
        "postMessages": lambda: lambda: service.post(f"/api/Communication/post-messages/{application}", {"message": "Hello"}),
    }.items():
        route = operations[name]["route"]
        for what, fault, expected in faults():
            before, send = control.get("/executed", route=route), begin()
            control.post("/fail", {"route": route, "fault": fault})
            missing = 0
            try:
                once(service, operations, name, ids, send, lambda: control.post("/wait", {}))
            except expected as error:
                missing, persons = 1, persons + isinstance(error, Unknown)
            control.post("/wait", {})
            executed, tried = control.get("/executed", route=route) - before, tried + 1
            if executed > 1 or executed == 0 and not missing or executed and expected is Refused:
                sys.exit(f"{name}, {what}: executed {executed} times")
    print(f"Met {tried} faults: nothing happened twice, nothing is missing, and a person decides {persons} times.")


def main(url):
    service, control = Service(url), Service(url + "/_control")
    try:
        control.get("/routes")
    except Refused:
        sys.exit(f"the control of {url} is off: start the sandbox with -control")
    except NotSent as error:
        sys.exit(str(error))
    sign_in(service, control)
    receiver = subscribe(service, partner="00000001-0a0a-4000-8000-000000000001")
    customer, application = apply(service)
    approve(service, application)
    loan = next(l["id"] for l in service.get(f"/api/Loan/get-customer-loans/{customer}") if l["applicationId"] == application)
    operations = described(url)
    withdraw(service, control, operations, application, loan)
    body, signature = Receiver.accepted.get(timeout=30)
    print(f"Received {json.loads(body)['webhookEvent']} with a valid signature.")
    forged = urllib.request.Request(receiver, body.replace(b"2500", b"9500"), {"abp-webhook-signature": signature})
    try:
        urllib.request.urlopen(forged, timeout=30).close()
        sys.exit("a forged event was accepted")
    except urllib.error.HTTPError as error:
        print(f"Rejected the same event with another amount: {error.code}.")
    never_twice(service, control, operations, customer, application, loan)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1].rstrip("/"))
