// Package ops is the operator's door to a running backend: a page, and the same as JSON, for the
// mutations that need a person, the webhooks set aside, and the sessions.
//
//	mux.Handle("/ops/", ops.Handler(ops.Options{
//		Log:      keys,
//		Inboxes:  map[string]webhook.DeadLetters{"webhooks": inbox},
//		Sessions: map[string]*lending.Session{"service": client.Session()},
//		Who:      func(r *http.Request) (name string, mayAct bool) { return userOf(r), isOperator(r) },
//	}))
//
// Mount the handler in a process that has the stores, behind your own authentication. Replicas
// show the same, because the stores are shared. An open page asks again every two seconds. If a store
// does not answer, a page holds the shutdown of its server for five seconds, or until the server's BaseContext ends. The command cmd/lending-ops uses the JSON from a
// terminal.
//
// # Routes
//
// All paths are below [Options].Path. Times are in UTC.
//
//	GET  api/keys?state=&prefix=&after=&limit=          a page of keys, oldest first
//	GET  api/key?key=order-42/confirm                   a key with its history, or 404
//	POST api/resolve                                    {"key","verdict","sends","answer","why","correct"}
//	GET  api/standing                                   paused or restored: by whom, since when, why
//	POST api/pause                                      {"why"}: all replicas stop sending mutations with a key
//	POST api/resume                                     {}
//	POST api/restored                                   {"since","for","claim"}: the store is a copy of the time since; pauses the log
//	GET  api/audit                                      the result of the last audit; {} before the first
//	POST api/audit                                      {"from","to"}: makes an audit, with the day of a date in to; ends with the request
//	GET  api/inboxes/{inbox}?event=&after=&limit=       a page of dead letters, newest first
//	GET  api/inboxes/{inbox}/{id}                       the event with its data, if Show allows it
//	POST api/inboxes/{inbox}/redrive                    {"ids":[…]} or {"all":true,"event"}
//	POST api/inboxes/{inbox}/drop                       the same, with "why"
//	GET  api/inboxes/{inbox}/removed?limit=             who dropped or erased an event, and why
//	POST api/erase                                      {"ids","why"}: a person, in the log and all inboxes
//	GET  api/sessions                                   signed in, waits, needs a person
//	POST api/signin                                     {"session","code"}: signs in without the wait after a failure; or with a code
//	GET  api/health                                     200 or 503, with each part
//
// lookAt of a key has the requests to the service that show whether the mutation happened.
//
// The state of a key is review (a person decides), doubt (a check ends the doubt), progress, or a
// state of package idempotency/store; says has both in words. The verdict is "happened" or "not_happened"; answer is the
// service's response, if the person knows it. If a key is correctable, correct: true replaces the
// earlier verdict. An error is {"error": "…"}, with "now" for the present state after a conflict
// (409). An unknown parameter of a GET is an error (400).
//
// # Actions
//
// An action needs a person who may act ([Options].Who), the content type application/json, and a
// request from the same origin or from outside a browser. A gateway must pass on the Host, or set
// X-Forwarded-Host. The logger of [Options] gets a record
// of each action: who, what and why. [Options].Resolved is called after each verdict: call
// Worker.Hint of package orders there, and the order goes on at once.
//
// If a store hangs, an action ends after 4 seconds, redrive and drop after 50, and an erasure after a minute for each
// store. The next order does the rest. An erasure reads all keys twice, so a server or gateway with a short WriteTimeout ends it.
//
// # Privacy
//
// The handler shows keys, routes, ids of records, counts, times and the causes of failures. It
// never shows a request, a response or a token. It shows the data of a webhook only if
// [Options].Show allows it.
package ops
