package lendingtest

import "encoding/json"

// addApplicant adds somebody who signs: the first is the primary applicant. A
// record may be any object; this model reads three names of it.
func (c *call) addApplicant(app *Application, record json.RawMessage) string {
	var who struct{ FirstName, LastName, Email string }
	if len(record) == 0 || string(record) == "null" || json.Unmarshal(record, &who) != nil {
		return ""
	}
	a := Applicant{
		ID: c.newID(kindApplicant), FirstName: who.FirstName, LastName: who.LastName, Email: who.Email,
		IsPrimary: len(app.Applicants) == 0, Record: record,
	}
	app.Applicants = append(app.Applicants, a)
	return a.ID
}
