package lendingtest

func (c *call) messages(app *Application) (any, error) {
	return page(c, app.Messages, takeCap), nil
}

// postMessage takes any object and stores the text in "message". The body is optional; without a
// body there is no message.
func (c *call) postMessage(app *Application) (any, error) {
	var req struct{ Message string }
	if present, err := c.decode(&req); err != nil || !present {
		return nil, err
	}
	m := Message{ID: c.newID(kindMessage), Message: req.Message, Sender: c.account.Username, CreatedUTC: Timestamp{c.now()}}
	app.Messages = append(app.Messages, m)
	c.emit(target{app.PartnerID, app.CustomerID}, "WB_Communication_Sent", app.ID, map[string]any{
		"applicationId": app.ID, "messageId": m.ID, "message": m.Message,
	})
	return nil, nil
}
