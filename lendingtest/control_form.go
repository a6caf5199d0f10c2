package lendingtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"time"
	"unicode/utf8"
)

// span is a duration whose JSON is the text of time.Duration, for example "1m30s".
type span time.Duration

func (d span) duration() time.Duration { return time.Duration(d) }

// MarshalText returns the text of the duration.
func (d span) MarshalText() ([]byte, error) { return []byte(d.duration().String()), nil }

// UnmarshalText parses the text of a duration.
func (d *span) UnmarshalText(b []byte) error {
	parsed, err := time.ParseDuration(string(b))
	*d = span(parsed)
	return err
}

// faultForm is a fault in JSON.
type faultForm struct {
	Status      int         `json:"status,omitempty"`
	Body        *string     `json:"body,omitempty"`
	ContentType string      `json:"contentType,omitempty"`
	Header      http.Header `json:"header,omitempty"`
	RetryAfter  span        `json:"retryAfter,omitempty"`
	Executes    bool        `json:"executes,omitempty"`
	AnswerDelay span        `json:"answerDelay,omitempty"`
	DelayBefore span        `json:"delayBefore,omitempty"`
	ResetBefore bool        `json:"resetBefore,omitempty"`
	ResetAfter  bool        `json:"resetAfter,omitempty"`
	CutBody     int         `json:"cutBody,omitempty"`
	Late        span        `json:"late,omitempty"`
	Patch       *Patch      `json:"patch,omitempty"`
	For         string      `json:"for,omitempty"`
	Times       int         `json:"times,omitempty"`
}

// MarshalJSON encodes a fault for another process: durations like "1m30s", Body as text.
// MarshalJSON returns an error for Reached and Until, and for a Body that is not text.
func (f Fault) MarshalJSON() ([]byte, error) {
	if f.Reached != nil || f.Until != nil {
		return nil, errors.New("lendingtest: a Fault with Reached or Until cannot be sent to another process; use Service.Fail")
	}
	form := faultForm{
		Status: f.Status, ContentType: f.ContentType, Header: f.Header, RetryAfter: span(f.RetryAfter), Executes: f.Executes,
		AnswerDelay: span(f.AnswerDelay), DelayBefore: span(f.DelayBefore), ResetBefore: f.ResetBefore, ResetAfter: f.ResetAfter, CutBody: f.CutBody, Late: span(f.Late),
		Patch: f.Patch, For: f.For, Times: f.Times,
	}
	if f.Body != nil {
		if !utf8.Valid(f.Body) {
			return nil, errors.New("lendingtest: the Body of the Fault is not UTF-8 text and cannot be sent to another process")
		}
		text := string(f.Body)
		form.Body = &text
	}
	return json.Marshal(form)
}

// UnmarshalJSON decodes the JSON of MarshalJSON and rejects unknown names.
func (f *Fault) UnmarshalJSON(b []byte) error {
	var form faultForm
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&form); err != nil {
		return err
	}
	*f = Fault{
		Status: form.Status, ContentType: form.ContentType, Header: form.Header, RetryAfter: form.RetryAfter.duration(), Executes: form.Executes,
		AnswerDelay: form.AnswerDelay.duration(), DelayBefore: form.DelayBefore.duration(), ResetBefore: form.ResetBefore, ResetAfter: form.ResetAfter, CutBody: form.CutBody,
		Late: form.Late.duration(), Patch: form.Patch, For: form.For, Times: form.Times,
	}
	if form.Body != nil {
		f.Body = []byte(*form.Body)
	}
	return nil
}

// deliveryForm is a delivery in JSON. The body is text with exactly the signed bytes.
type deliveryForm struct {
	Number    int       `json:"number"`
	Time      time.Time `json:"time"`
	Event     string    `json:"event"`
	URI       string    `json:"uri"`
	Body      string    `json:"body"`
	Signature string    `json:"signature"`
	Status    int       `json:"status"`
	Error     string    `json:"error,omitempty"`
}

// MarshalJSON encodes a delivery for another process, with the body as text.
func (d Delivery) MarshalJSON() ([]byte, error) {
	form := deliveryForm{d.Number, d.Time, d.Event, d.URI, string(d.Body), d.Signature, d.Status, ""}
	if d.Err != nil {
		form.Error = d.Err.Error()
	}
	return json.Marshal(form)
}

// UnmarshalJSON decodes the JSON of MarshalJSON. An error keeps its text only.
func (d *Delivery) UnmarshalJSON(b []byte) error {
	var form deliveryForm
	if err := json.Unmarshal(b, &form); err != nil {
		return err
	}
	*d = Delivery{
		Number: form.Number, Time: form.Time, Event: form.Event, URI: form.URI, Body: []byte(form.Body),
		Signature: form.Signature, Status: form.Status,
	}
	if form.Error != "" {
		d.Err = errors.New(form.Error)
	}
	return nil
}
