// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// userObject returns a user with every property that $select can name.
func userObject(u user) object {
	licenses := []object{}
	if u.Licensed {
		licenses = append(licenses, object{"disabledPlans": []string{}, "skuId": businessBasic.sku})
	}
	kind := "Member"
	if u.HomeTenant != "" {
		kind = "Guest"
	}
	return object{
		"id": u.ID, "displayName": u.DisplayName, "userPrincipalName": u.UPN, "mail": orNull(u.Mail),
		"accountEnabled": u.Enabled, "assignedLicenses": licenses, "mailNickname": u.Nickname,
		"createdDateTime": u.Created.Format(time.RFC3339), "userType": kind, "passwordPolicies": orNull(u.Policies),
		"businessPhones": []string{}, "givenName": nil, "jobTitle": nil, "mobilePhone": nil,
		"officeLocation": nil, "preferredLanguage": nil, "surname": nil,
	}
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// defaultUserProperties are the properties of a user that Graph returns without $select.
var defaultUserProperties = []string{"businessPhones", "displayName", "givenName", "id", "jobTitle", "mail", "mobilePhone",
	"officeLocation", "preferredLanguage", "surname", "userPrincipalName"}

// visibleUsers returns the users that are visible in Graph and match $filter.
func (c *graphCall) visibleUsers(t *tenant) ([]object, *graphError) {
	query := c.r.URL.Query()
	clauses, refusal := parseFilter(query.Get("$filter"))
	if refusal != nil {
		return nil, refusal
	}
	isEventual := c.r.Header.Get("ConsistencyLevel") == "eventual"
	isCounted := query.Get("$count") == "true" || strings.HasSuffix(c.r.URL.Path, "/$count")
	for _, clause := range clauses {
		if clause.needsEventualConsistency() && !(isEventual && isCounted) {
			return nil, errFilter.with(clause.property)
		}
	}
	objects := []object{}
	for _, u := range t.Users {
		if u.VisibilityLag.hasPassed(c.now) {
			objects = append(objects, userObject(u))
		}
	}
	return applyFilter(objects, clauses, "id", "userPrincipalName", "mail", "accountEnabled", "displayName",
		"mailNickname", "userType", "assignedLicenses/$count")
}

// listUsers answers GET /users, in pages.
func listUsers(call *graphCall, t *tenant) result {
	query := call.r.URL.Query()
	size := 100
	if text := query.Get("$top"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 999 {
			return errorResult(errPageSize.with(text))
		}
		size = n
	}
	users, refusal := call.visibleUsers(t)
	if refusal != nil {
		return errorResult(refusal)
	}
	rows, next := call.page(users, min(size, t.Behaviour.PageSize))
	names := selectedProperties(call.r)
	if names == nil {
		names = defaultUserProperties
	}
	values := []object{}
	for _, o := range rows {
		values = append(values, selectProperties(o, names))
	}
	body := object{"@odata.context": call.contextURL("users"), "value": values}
	if next != "" {
		body["@odata.nextLink"] = next
	}
	if query.Get("$count") == "true" && call.r.Header.Get("ConsistencyLevel") == "eventual" {
		body["@odata.count"] = len(users)
	}
	return result{status: http.StatusOK, body: body}
}

// countUsers answers GET /users/$count. It requires ConsistencyLevel: eventual.
func countUsers(c *graphCall, t *tenant) result {
	if c.r.Header.Get("ConsistencyLevel") != "eventual" {
		return errorResult(errFilter.with("$count"))
	}
	users, refusal := c.visibleUsers(t)
	if refusal != nil {
		return errorResult(refusal)
	}
	return result{status: http.StatusOK, body: strconv.Itoa(len(users))}
}

// visibleUser returns the user in the path. It does not find a user whose VisibilityLag has not
// passed.
func (c *graphCall) visibleUser(t *tenant) (*user, *graphError) {
	u := t.user(c.r.PathValue("id"))
	if u == nil || !u.VisibilityLag.hasPassed(c.now) {
		return nil, errNotFound.with(c.r.PathValue("id"))
	}
	return u, nil
}

func getUser(c *graphCall, t *tenant) result {
	u, refusal := c.visibleUser(t)
	if refusal != nil {
		return errorResult(refusal)
	}
	found := userObject(*u)
	if selectedProperties(c.r) == nil {
		found = selectProperties(found, defaultUserProperties)
	}
	return c.entity(http.StatusOK, "users", found)
}

func deleteUser(c *graphCall, t *tenant) result {
	u, refusal := c.visibleUser(t)
	if refusal != nil {
		return errorResult(refusal)
	}
	t.removeUser(u.ID)
	return result{status: http.StatusNoContent}
}

// removeUser removes a user and the user's mailbox.
func (t *tenant) removeUser(id string) {
	t.Users = slices.DeleteFunc(t.Users, func(u user) bool { return u.ID == id })
	t.Exchange.Mailboxes = slices.DeleteFunc(t.Exchange.Mailboxes, func(m mailbox) bool { return m.ObjectID == id })
}

// updateUser answers PATCH /users/{id}. Changes of the password and of accountEnabled require their
// own permissions instead of User.ReadWrite.All.
func updateUser(c *graphCall, t *tenant) result {
	body, refusal := c.readBody()
	if refusal == nil {
		refusal = rejectUnknown(body, "accountEnabled", "passwordProfile", "passwordPolicies", "userPrincipalName",
			"displayName", "mailNickname", "usageLocation")
	}
	if refusal == nil {
		refusal = c.checkUpdatePermissions(body)
	}
	if refusal != nil {
		return errorResult(refusal)
	}
	u, refusal := c.visibleUser(t)
	if refusal != nil {
		return errorResult(refusal)
	}
	changed := *u
	for name, v := range body {
		if refusal := t.setUserProperty(&changed, name, v); refusal != nil {
			return errorResult(refusal)
		}
	}
	*u = changed
	return result{status: http.StatusNoContent}
}

// checkUpdatePermissions returns errDenied if the caller must not change one of the properties.
func (c *graphCall) checkUpdatePermissions(body object) *graphError {
	for name := range body {
		ok := c.hasRole(userReadWrite)
		switch name {
		case "passwordProfile":
			ok = c.hasRole(passwordReadWrite)
		case "accountEnabled":
			ok = c.hasRole(enableAccount)
		}
		if !ok {
			return errDenied.with("")
		}
	}
	return nil
}

// setUserProperty sets one property of a user. It accepts usageLocation, but does not store it.
func (t *tenant) setUserProperty(u *user, name string, v any) *graphError {
	text, isString := v.(string)
	switch name {
	case "accountEnabled":
		enabled, ok := v.(bool)
		if !ok {
			return errValues.with("")
		}
		u.Enabled = enabled
		return nil
	case "passwordProfile":
		return u.setPassword(v, t.Behaviour.BannedWords)
	}
	if !isString {
		return errValues.with("")
	}
	switch name {
	case "passwordPolicies":
		u.Policies = text
	case "displayName":
		u.DisplayName = text
	case "mailNickname":
		u.Nickname = text
	case "userPrincipalName":
		return t.setSignInName(u, text)
	}
	return nil
}

// setSignInName changes a sign-in name. Its domain must be verified in the tenant, and no other
// user may have the name.
func (t *tenant) setSignInName(u *user, upn string) *graphError {
	local, name, ok := strings.Cut(upn, "@")
	d := t.domain(name)
	if !ok || local == "" || !strings.EqualFold(name, t.initialDomain()) && (d == nil || !d.Verified) {
		return errValues.with("")
	}
	if other := t.user(upn); other != nil && other.ID != u.ID {
		return errConflict.with("")
	}
	u.UPN = upn
	return nil
}

// setPassword checks a password and stores only that the user has one.
func (u *user) setPassword(v any, bannedWords []string) *graphError {
	profile, ok := v.(object)
	if !ok {
		return errValues.with("")
	}
	if refusal := rejectUnknown(profile, "password", "forceChangePasswordNextSignIn",
		"forceChangePasswordNextSignInWithMfa"); refusal != nil {
		return refusal
	}
	password, isSet := profile["password"].(string)
	if isSet && (!isComplex(password) || isBanned(password, bannedWords)) {
		return errPassword.with("")
	}
	u.PasswordSet = u.PasswordSet || isSet
	return nil
}

// isComplex reports whether a password follows Microsoft's rule: 8 to 256 characters of at least
// three of the classes lower case, upper case, digits and others.
func isComplex(password string) bool {
	length := utf8.RuneCountInString(password)
	var characterClasses [4]bool
	for _, r := range password {
		switch {
		case unicode.IsLower(r):
			characterClasses[0] = true
		case unicode.IsUpper(r):
			characterClasses[1] = true
		case unicode.IsDigit(r):
			characterClasses[2] = true
		default:
			characterClasses[3] = true
		}
	}
	classCount := 0
	for _, c := range characterClasses {
		if c {
			classCount++
		}
	}
	return length >= 8 && length <= 256 && classCount >= 3
}

// isBanned reports whether a password is a banned word, after digits and symbols at both ends are
// removed, and characters that commonly stand for a letter are replaced. Microsoft does not publish
// its list of banned words, so words is a setting of the tenant.
func isBanned(password string, words []string) bool {
	word := strings.TrimFunc(strings.ToLower(password), func(r rune) bool { return !unicode.IsLetter(r) })
	plain := strings.NewReplacer("@", "a", "0", "o", "$", "s", "1", "l").Replace(word)
	return slices.Contains(words, plain)
}
