// A tour of the sandbox in Node, with its standard library only: from the creation of a customer to a
// withdrawal, then the situations that a front end has to survive. Each line of the output is a check
// that has held. Each run needs a fresh sandbox. Copy the class Sandbox, described and once into your
// own tests.
//
//   go run ./cmd/lending-sandbox -control
//   node examples/node/journey.mjs http://127.0.0.1:8080
//
// With a second address, of a sandbox with -service, the program also reads a record with the fields of
// real responses.

import assert from "node:assert/strict";
import { createHmac, timingSafeEqual } from "node:crypto";
import { once as event } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";

const partner = "00000001-0a0a-4000-8000-000000000001";
const account = { username: "partner@example.com", password: "Partner-Pass-1" };
// Without Accept, or with */*, the service answers a text such as an identifier as text/plain.
const json = { "Content-Type": "application/json", Accept: "application/json" };

class Sandbox {
  constructor(url, token = "") { Object.assign(this, { url, token }); }

  // call returns the status and the decoded response, or status 0 without a response. A 4xx tells by its status alone.
  async call(method, path, body) {
    const headers = { ...json, ...(this.token && { Authorization: `Bearer ${this.token}` }) };
    let response;
    try {
      response = await fetch(this.url + path, { method, headers, body: body && JSON.stringify(body), redirect: "manual" });
      const text = await response.text();
      return { status: response.status, headers: response.headers, text, data: parsed(text) };
    } catch {
      return { status: response?.status >= 400 ? response.status : 0 };
    }
  }
  async get(path) { return ok(path, await this.call("GET", "/api/" + path)); }
  async post(path, body) { return ok(path, await this.call("POST", "/api/" + path, body)); }

  // order sends an order of the control, see lendingtest/CONTROL.md.
  async order(name, body = {}) { return ok(name, await this.call("POST", "/_control/" + name, body)); }
  async ask(name, query = {}) { return ok(name, await this.call("GET", `/_control/${name}?${new URLSearchParams(query)}`)); }

  // as signs in and returns a sandbox for this account.
  async as({ username, password }) {
    let user = await this.post("Authenication/login", { username, password });
    if (user.requiresTwoFactor) {
      const code = await this.ask("two-factor-code", { username });
      user = await this.post("Authenication/validate-two-factor", { username, code });
    }
    return new Sandbox(this.url, user.token);
  }
}

function parsed(text) {
  try { return JSON.parse(text); } catch { return undefined; }
}

function ok(what, { status, text, data }) {
  assert.ok(status === 200 || status === 204, `${what}: ${status} ${text}`);
  return data;
}

function check(text) { console.log("ok", text); }

// The way from a customer to a loan and a confirmed withdrawal, whose response is lost.
async function withdraw(sandbox) {
  const customer = await sandbox.post("Application/create-customer", {
    firstName: "Ada", lastName: "Lovelace", email: "ada@example.com", password: "Analytical-Engine-1", mobileNumber: "4155550100",
  });
  const application = await sandbox.post("Application/create-application", { customerId: customer.id, businessName: "Lovelace Analytics" });
  await sandbox.post(`Application/add-or-update-banking-data/${application}`, { accounts: [{
    accountNumber: "1", balance: "1.00", transactions: [{ date: "2026-08-03", description: "Invoice 1", amount: "7500.00" }],
  }] });
  await sandbox.get(`Application/process-application/${application}`);
  const loan = await sandbox.order("add-loan", { applicationId: application, amount: 7500 });
  const invoice = { amount: 2500, percentOfIncome: 10, terms: 6, fixedRepaymentCalculation: true };
  await sandbox.post(`Calculation/application-invoice-calculation?applicationId=${application}`, invoice);
  const { amount, advanceRate } = await sandbox.post(`Loan/make-withdrawal-invoice/${loan.id}`, { calculation: invoice });
  const route = "POST /api/Loan/confirm-withdrawal-invoice/{loanId}", otp = await sandbox.ask("otp", { loan: loan.id });
  await sandbox.order("fail", { route, fault: { resetAfter: true } });
  const lost = await sandbox.call("POST", `/api/Loan/confirm-withdrawal-invoice/${loan.id}`, {
    amount, advanceRate, otp, dateUTC: new Date().toISOString(),
  });
  assert.equal(lost.status, 0);
  const { data } = await sandbox.get(`Loan/get-withdrawals/${loan.id}?take=1&descending=true`);
  assert.equal(data[0].amount, 2500);
  assert.equal(await sandbox.ask("executed", { route, about: loan.id }), 1);
  check("a withdrawal whose response was lost was executed once");
  return { customer: customer.id, application, loan: loan.id };
}

// A slow service executes at once, also for a caller who has gone.
async function slow(sandbox, { application }) {
  const route = "POST /api/Communication/post-messages/{applicationId}", path = "Communication/post-messages/" + application;
  await sandbox.order("fail", { route, fault: { answerDelay: "1m" } });
  const patience = new AbortController();
  const first = fetch(`${sandbox.url}/api/${path}`, {
    method: "POST", headers: { ...json, Authorization: `Bearer ${sandbox.token}` }, body: '{"message":"once"}', signal: patience.signal,
  });
  while (await sandbox.ask("executed", { route }) === 0); // a timer in a real program
  patience.abort();
  await assert.rejects(first);
  await sandbox.post(path, { message: "again" });
  assert.equal(await sandbox.ask("executed", { route }), 2);
  check("a time-out and a second try execute a mutation twice");
}

// The request log says why a call failed.
async function why(sandbox, { loan }) {
  await sandbox.call("GET", "/api/Loan/get-loan/x");
  await sandbox.get(`Loan/get-loan/${loan}`);
  const requests = await sandbox.ask("requests"), [refused, read] = requests.slice(-2);
  assert.deepEqual([refused.route, refused.status, refused.executed], ["GET /api/Loan/get-loan/{loanId}", 400, false]);
  assert.equal(JSON.parse(refused.answer).errorCode, "ValidationFailed");
  assert.deepEqual((await sandbox.ask("requests", { limit: 1 })).map((r) => r.number), [read.number]);
  const [lost] = requests.filter((r) => r.executed && r.status === 0 && r.about.includes(loan));
  assert.equal(lost.route, "POST /api/Loan/confirm-withdrawal-invoice/{loanId}");
  assert.equal((await sandbox.ask("routes")).length, 69);
  assert.equal((await sandbox.ask("sent")).at(-1).kind, "loan-otp");
  await sandbox.order("fail", { route: "*", fault: { status: 503 } });
  await sandbox.order("clear-faults");
  const page = await (await fetch(sandbox.url + "/")).text();
  assert.match(page, /Rejected with <code>ValidationFailed/);
  assert.match(await (await fetch(sandbox.url + "/openapi.yaml")).text(), /^openapi: /m);
  check("the page and the request log say why a call failed");
}

// A service of its own for each of 50 testers of one sandbox.
async function shared(sandbox) {
  const services = await Promise.all(Array.from({ length: 50 }, () => sandbox.order("services")));
  const testers = await Promise.all(services.map(({ url }) => new Sandbox(url).as(account)));
  const list = (i) => testers[i].call("GET", `/api/Application/get-partner-applications/${partner}`);
  assert.ok((await Promise.all(services.map((_, i) => list(i)))).every(({ status }) => status === 200));
  check("50 testers sign in at once, each at a service of its own");
  await testers[0].order("fail", { route: "*", fault: { status: 503, times: -1 } });
  await testers[1].order("advance", { by: "2h" });
  await testers[2].order("reset");
  const statuses = await Promise.all([0, 1, 2, 3].map(async (i) => (await list(i)).status));
  assert.deepEqual(statuses, [503, 401, 401, 200]);
  assert.equal((await sandbox.ask("services")).length, 50);
  await Promise.all(services.map(({ id }) => sandbox.order("delete-service", { id })));
  assert.deepEqual(await sandbox.ask("services"), []);
  check("a fault, a clock and a reset of one service meet no other");
}

// described returns what openapi.yaml says of each operation: path, x-effect, x-retry, x-check-with. No reader of YAML
// is needed.
async function described(url) {
  const text = await (await fetch(url + "/openapi.yaml")).text(), operations = {};
  for (const [, path, method, lines] of text.matchAll(/^  (\/\S+):\n    (get|post):\n((?:      .*\n)+)/gm)) {
    const said = Object.fromEntries([...lines.matchAll(/^      (operationId|x-[a-z-]+): (.*)$/gm)].map(([, k, v]) => [k, v]));
    operations[said.operationId] = { ...said, path, method: method.toUpperCase(), checks: said["x-check-with"]?.match(/\w+/g) ?? [] };
  }
  return operations;
}

const filled = (path, ids) => path.replace(/{(\w+)}/g, (_, name) => encodeURIComponent(ids[name]));

// once sends a mutation, and again only if the description allows it. It returns "done", "rejected", or "unknown": then
// a person decides. wait returns when the service executes nothing late any more: ask its owner how long, in minutes.
async function once(sandbox, operations, name, ids, { query = "", body }, wait) {
  const { method, path, checks, "x-retry": retry } = operations[name];
  const look = async () => JSON.stringify(await Promise.all(retry === "check" ? checks.map((read) =>
    sandbox.get(filled(operations[read].path, ids).slice("/api/".length))) : []));
  const send = async () => {
    const { status, text, data } = await sandbox.call(method, filled(path, ids) + query, body);
    if (status >= 400 && status < 500 && status !== 408) return "rejected";
    return status === 204 || (status === 200 && (!text || data !== undefined)) ? "done" : "unknown";
  };
  const before = await look(), first = await send();
  if (first !== "unknown" || !["safe", "check"].includes(retry)) return first;
  if (retry === "check") {
    await wait();
    if ((await look()) !== before) return "done"; // by this call, or by another program: never twice
  }
  return send();
}

// faults are those of the Go client's list that a caller meets, as faults of the sandbox.
async function faults() {
  const rows = await readFile(new URL("../../testdata/conformance.json", import.meta.url), "utf8"), list = [];
  for (const { name, client, status, header = {}, body, raw, then, mutation } of JSON.parse(rows.replaceAll("{{foreign}}", "partner.invalid")).faults) {
    if (client || !mutation.outcome || mutation.arrivals !== 1 || name.startsWith("101")) continue;
    const head = raw?.match(/^HTTP\/1.1 ([2-5]\d\d) /), rejected = mutation.outcome.startsWith("rejected");
    let fault = { resetBefore: true }, executed = then === "hang" ? { late: "20ms" } : { resetAfter: true };
    if (status || head) {
      fault = { status: status ?? +head[1], contentType: "application/json", header: Object.fromEntries(Object.entries(header).map(([k, v]) => [k, [v]])) };
      if (body !== undefined) fault.body = body; else if (head) fault.cutBody = 1;
      executed = { ...fault, executes: true };
    }
    if (!rejected) list.push({ name, fault: executed });
    if (!mutation.outcome.startsWith("done")) list.push({ name, fault, rejected });
  }
  return list;
}

// Each fault meets a mutation of each kind, and the description tells what to do.
async function neverTwice(sandbox, made) {
  const operations = await described(sandbox.url), all = await faults(), wait = () => sandbox.order("wait");
  const ids = { customerId: made.customer, applicationId: made.application }, ends = {};
  for (const [name, request] of Object.entries({
    createApplication: { body: { customerId: made.customer } },
    updateApplicationName: { query: "?name=Lovelace", most: 2 }, // the same value again
    postMessages: { body: { message: "Hello" } },
  })) {
    const { method, path } = operations[name], route = method + " " + path;
    for (const { name: what, fault, rejected } of all) {
      const before = await sandbox.ask("executed", { route });
      await sandbox.order("fail", { route, fault });
      const end = await once(sandbox, operations, name, ids, request, wait);
      await wait();
      const executed = (await sandbox.ask("executed", { route })) - before;
      assert.equal(end === "rejected", !!rejected, `${name}, ${what}: ${end}`);
      assert.ok(executed <= (request.most ?? 1), `${name}, ${what}: executed ${executed} times`);
      assert.ok(end !== "done" || executed > 0, `${name}, ${what}: missing`);
      ends[end] = (ends[end] ?? 0) + 1;
    }
  }
  check(`nothing is doubled or missing under ${ends.done + ends.rejected + ends.unknown} faults, ${ends.unknown} of which need a person`);
}

// Life after the happy path: an order each.
async function life(sandbox, { loan }) {
  const path = `/api/Loan/get-loan/${loan}`, fault = (fault) => sandbox.order("fail", { route: "*", fault });
  await fault({ status: 429, retryAfter: "30s" });
  const limited = await sandbox.call("GET", path);
  assert.deepEqual([limited.status, limited.headers.get("Retry-After")], [429, "30"]);
  await fault({ status: 503, contentType: "text/html", body: "<h1>Maintenance</h1>" });
  const down = await sandbox.call("GET", path);
  assert.deepEqual([down.status, down.text, down.headers.get("Content-Type")], [503, "<h1>Maintenance</h1>", "text/html"]);
  const route = "GET /api/Loan/get-loan/{loanId}", { isClosed, balance, ...kept } = await sandbox.get(path.slice("/api/".length));
  const body = JSON.stringify({ ...kept, tier: 1, owed: balance, amount: "7500.00" });
  await sandbox.order("fail", { route, fault: { status: 200, contentType: "application/json", body, times: -1 } });
  const drifted = (await sandbox.call("GET", path)).data;
  assert.deepEqual([drifted.tier, drifted.isClosed, drifted.owed, drifted.amount], [1, undefined, 2500, "7500.00"]);
  await sandbox.order("clear-faults");
  check("a rate limit, a maintenance page and another schema come as ordered");

  const fresh = await sandbox.order("add-loan"), application = fresh.applicationId;
  const status = () => sandbox.get(`Application/application-status/${application}`);
  await sandbox.order("update", { id: application, set: { status: "On Hold" } });
  assert.equal(await status(), "On Hold");
  await sandbox.order("update", { id: fresh.id, set: { isEnabled: false } });
  assert.equal(await sandbox.get(`Loan/is-loan-enabled/${fresh.id}`), false);
  await sandbox.order("update", { id: fresh.id, set: { isClosed: true } });
  assert.equal(await sandbox.get(`Loan/is-loan-closed/${fresh.id}`), true);
  check("an unknown status, a disabled loan and a closed loan");

  await sandbox.order("repay", { loanId: loan, amount: 500 });
  await sandbox.order("advance", { by: "721h" });
  assert.equal((await sandbox.call("GET", path)).status, 401); // the token has expired
  sandbox = await sandbox.as(account);
  assert.equal((await sandbox.get(`Loan/get-total-balance/${loan}`)).totalBalance, 2000);
  check("a repayment lowers the balance, and tokens expire");
  return sandbox;
}

// Decisions come late or decline, and offers expire.
async function decisions(sandbox, { customer }) {
  const apply = async () => {
    const id = await sandbox.post("Application/create-application", { customerId: customer });
    await sandbox.post(`Application/add-or-update-banking-data/${id}`, { accounts: [{
      accountNumber: "1", balance: "1.00", transactions: [{ date: "2026-08-03", description: "", amount: "7500.00" }],
    }] });
    await sandbox.get(`Application/process-application/${id}`);
    return id;
  };
  const offer = (id) => sandbox.call("GET", `/api/Application/application-offer/${id}`);
  await sandbox.order("decision", { after: "10m" });
  const late = await apply();
  assert.equal((await offer(late)).data.errorCode, "OfferNotFound");
  await sandbox.order("advance", { by: "10m" });
  assert.deepEqual([(await offer(late)).data.amount, (await offer(late)).data.isExpired], [7500, false]);
  await sandbox.order("update", { id: late, set: { offer: { expiresUTC: "2026-01-01" } } });
  assert.equal((await offer(late)).data.isExpired, true);
  await sandbox.order("decision", { declined: true });
  const declined = await apply();
  assert.match(await sandbox.get(`Application/application-status/${declined}`), /declined/i);
  await sandbox.order("decision");
  check("a late decision, an expired offer and a declined application");

}

// Webhooks come twice, late, in another order, forged and with a previous secret.
async function webhooks(sandbox, { loan }) {
  const received = [];
  let secret;
  const receiver = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks), mac = createHmac("sha256", secret).update(body).digest("hex").toUpperCase();
    const expected = Buffer.from("sha256=" + mac.match(/../g).join("-")), signature = Buffer.from(request.headers["abp-webhook-signature"] ?? "");
    const genuine = expected.length === signature.length && timingSafeEqual(expected, signature);
    received.push([JSON.parse(body).webhookEvent.replace("WB_Loan_", ""), genuine]);
    response.writeHead(204).end();
  }).listen(0, "127.0.0.1");
  await event(receiver, "listening");
  await sandbox.post(`Webhook/register?partnerId=${partner}`, { webhookUri: `http://127.0.0.1:${receiver.address().port}/`, webhooks: [] });
  const subscription = await sandbox.get(`Webhook/get-subscription?partnerId=${partner}`);
  secret = subscription.secret;

  let closed = false;
  // events changes the loan once in each mode, and returns the received events.
  const events = async (...modes) => {
    for (const mode of modes) {
      await sandbox.order("delivery-mode", mode);
      await sandbox.order("update", { id: loan, set: { isClosed: (closed = !closed) } });
    }
    await sandbox.order("wait");
    return received.splice(0);
  };
  assert.deepEqual(await events({}), [["Closed", true]]);
  assert.deepEqual(await events({ copies: 1 }), [["Opened", true], ["Opened", true]]);
  assert.deepEqual(await events({ secret: "guess" }), [["Closed", false]]);
  assert.deepEqual(await events({ delay: "10ms" }), [["Opened", true]]);
  assert.deepEqual(await events({ hold: true }, { hold: true }), []);
  await sandbox.order("delivery-mode", { reverse: true });
  await sandbox.order("wait");
  assert.deepEqual(received.splice(0), [["Opened", true], ["Closed", true]]);
  await sandbox.order("update", { id: subscription.id, set: { secret: "whs_new" } });
  assert.deepEqual(await events({ secret }), [["Closed", true]]); // the receiver has the previous secret
  assert.deepEqual(await events({}), [["Opened", false]]);
  secret = "whs_new";
  assert.deepEqual(await events({}), [["Closed", true]]);
  check("webhooks come twice, late, forged, held, reversed and with the previous secret");
  receiver.close();
}

// A sandbox that has learned from real responses has their fields, and no assumed field.
async function taught(sandbox) {
  sandbox = await sandbox.as(account);
  const { id } = await sandbox.order("add-loan");
  const loan = await sandbox.get(`Loan/get-loan/${id}`);
  assert.equal(typeof loan.nickname, "string");
  assert.deepEqual([loan.id, loan.amount, loan.isEnabled], [id, 10000, undefined]);
  check("a taught sandbox answers with the fields of real responses");
}

const [url, learned] = process.argv.slice(2);
const anyone = new Sandbox(url.replace(/\/$/, ""));
const up = await anyone.call("GET", "/_control/routes");
if (up.status !== 200) {
  console.error(up.status ? `the control of ${url} is off: start the sandbox with -control` : `no connection to ${url}; is the sandbox running?`);
  process.exit(1);
}
let sandbox = await anyone.as(account);
check("signed in with a password and a code");
const made = await withdraw(sandbox);
await slow(sandbox, made);
await why(sandbox, made);
await neverTwice(sandbox, made);
await shared(sandbox);
sandbox = await life(sandbox, made);
await decisions(sandbox, made);
await webhooks(sandbox, made);
if (learned) await taught(new Sandbox(learned));
