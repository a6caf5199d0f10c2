package lendingtest

// The four routes in this file are GETs that change state.

func (c *call) updateName(app *Application) (any, error) {
	return rename(app, c.query.Get("name"), ""), nil
}

func (c *call) updateNameAndZip(app *Application) (any, error) {
	return rename(app, c.query.Get("name"), c.query.Get("zipCode")), nil
}

// rename changes the given fields and reports whether any was given. Both parameters are
// optional.
func rename(app *Application, name, zip string) bool {
	if name != "" {
		app.BusinessName = name
	}
	if zip != "" {
		app.setZip(zip)
	}
	return name != "" || zip != ""
}

// setZip keeps the zip code in a single place.
func (a *Application) setZip(zip string) {
	a.BusinessZip = zip
	if _, ok := a.ExtraInformation[zipcodeKey]; ok {
		a.ExtraInformation[zipcodeKey] = zip
	}
}

func (c *call) updateCustomerData(app *Application) (any, error) {
	row := *c.customers.get(app.CustomerID)
	row.FirstName, row.LastName = c.required("firstname"), c.required("lastname")
	row.Address, row.State, row.City = c.required("address"), c.required("state"), c.required("city")
	row.SSN, row.MobileNumber = c.required("ssn"), c.required("mobile")
	row.DateOfBirth = c.requiredTime("dateOfBirth")
	if row.MobileNumber != "" {
		mobile, ok := tenDigits(row.MobileNumber)
		if !ok {
			c.failed.add("mobile", "InvalidMobileNumber", "The number does not have exactly ten digits.")
		}
		row.MobileNumber = mobile
	}
	if len(c.failed) > 0 {
		return nil, c.failed.err()
	}
	*c.customers.get(app.CustomerID) = row
	return true, nil
}

func (c *call) updateApplicationData(app *Application) (any, error) {
	name, zip, start := c.required("name"), c.required("zipcode"), c.requiredTime("startDate")
	if len(c.failed) > 0 {
		return nil, c.failed.err()
	}
	app.BusinessName, app.StartDate = name, start
	app.setZip(zip)
	return true, nil
}
