// Package lendingotel reports the calls of a [lending.Client] to OpenTelemetry: spans and durations of
// calls and of their attempts ([Observer]), the handling of events ([Webhooks]), the states of keys
// ([Store]), and gauges of the stores ([Gauges]).
//
//	client, err := lending.New(baseURL,
//		lending.WithCredentials(credentials),
//		lending.WithObserver(lendingotel.Observer(lendingotel.WithBaseURL(baseURL))),
//		lending.WithHeader(lendingotel.Header),
//	)
//
// The two functions of [Observer] work without each other. Call them from a function of your own to
// leave attempts out: see the examples. The logger of the client gets the context with the span.
//
// # Spans
//
// The span of a call, "call GET /api/Loan/get-loan/{loanId}" of kind internal, is a child of the span
// in the caller's context. It covers waits and sign-ins, and exists without a request, too. Each attempt
// is a child of kind client, "GET /api/Loan/get-loan/{loanId}", from the search for a connection to the
// last byte of the response. Calls that wait for a token share a sign-in, a trace of its own.
// The attributes follow version 1.43.0 of the semantic conventions for HTTP clients:
//
//	http.request.method        GET
//	url.template               /api/Loan/get-loan/{loanId}
//	http.response.status_code  503; of a call that of the last response; absent without a response
//	http.request.resend_count  of attempts: 1 for the first retry, absent before
//	network.protocol.version   1.1 or 2, absent without a response
//	error.type                 503, or a word of the list below; absent for success
//	server.address             lending.example, with WithBaseURL
//	server.port                443, with WithBaseURL
//	lending.effect             read, mutation
//	lending.outcome            done, rejected, not sent, unknown; of an attempt the outcome if no attempt follows
//	lending.attempts           of calls
//	lending.idempotency        sent, check; of calls also replayed, rebuilt, refused; absent without a key
//
// The status is Error with an error.type, and its text quotes no value. As the conventions want, a
// canceled context is no error. Besides the status of a response, error.type is
//
//	timeout                the context's deadline, or a limit of the transport, has passed
//	host_not_found         the name of the service does not resolve
//	certificate_invalid    the certificate of the service is not accepted
//	connection_failed      no connection could be made
//	connection_reset       the connection broke
//	connection_closed      the connection was closed before the response was complete
//	answer_too_large       the response is larger than lending reads
//	unexpected_answer      a success whose body proves nothing: an HTML page, or a broken document
//	_OTHER                 any other error
//
// and of calls also
//
//	argument_invalid       an argument is invalid, and nothing was sent
//	sign_in_required       a person has to sign in
//	no_token               the client has no token, for another reason
//	no_content             a success without the expected record
//	answer_not_decoded     a success whose body does not decode
//	in_progress, in_doubt, needs_review, locked, answer_lost, key_reused, other_account, paused, erased
//	                       the error of package idempotency with this name
//	idempotency_store_failed  the store of the log failed
//
// # Metrics
//
// lending.client.call.duration and http.client.request.duration (attempts) are histograms in seconds,
// with the attributes of the spans except the numbers of attempts. Alert on mutations whose outcome is
// unknown. A series begins with 1 at the first of them, which increase alone does not see:
//
//	increase(lending_client_call_duration_seconds_count{lending_effect="mutation", lending_outcome="unknown"}[10m]) > 0
//	or lending_client_call_duration_seconds_count{lending_effect="mutation", lending_outcome="unknown"}
//	unless lending_client_call_duration_seconds_count{lending_effect="mutation", lending_outcome="unknown"} offset 10m
//
// An idempotency log ends most of these doubts: with a log, alert on the gauges instead.
//
// The span "process" of an event has kind consumer and the histogram messaging.process.duration, with
// messaging.system (lending), messaging.operation.name, messaging.destination.name, error.type.
//
// docs/operating.md lists the gauges of [Gauges], which are read at each collection, with an alert for each.
//
// # From a delivery to the money
//
// A trace, with the span of an HTTP server and the events of [Store] in brackets:
//
//	POST /webhooks
//	  process WB_Loan_Created
//	    call POST /api/Loan/make-withdrawal-invoice/{loanId}  [load free, save sent, save done]
//	      POST /api/Loan/make-withdrawal-invoice/{loanId}
//
// # Privacy
//
// Spans and metrics hold no URL, no value of a parameter, no idempotency key, no header, no body, and
// nothing of a response except its status. The route of [lending.Client.Do] is the Path as the caller
// wrote it, so put values in Args. Do not use the transport of otelhttp below the client: it records
// the URL with its query.
package lendingotel
