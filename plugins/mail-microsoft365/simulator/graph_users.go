// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// userObject is an account with every property that can be selected.
func userObject(u user) object {
	licenses := []object{}
	if u.Licensed {
		licenses = append(licenses, object{"disabledPlans": []string{}, "skuId": "3b555118-da6a-4418-894f-7df1e2096870"})
	}
	var mail any
	if u.Mail != "" {
		mail = u.Mail
	}
	kind := "Member"
	if u.Home != "" {
		kind = "Guest"
	}
	return object{
		"id": u.ID, "displayName": u.DisplayName, "userPrincipalName": u.UPN, "mail": mail,
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

// usualUser are the properties that Graph shows when none are selected.
var usualUser = []string{"businessPhones", "displayName", "givenName", "id", "jobTitle", "mail", "mobilePhone",
	"officeLocation", "preferredLanguage", "surname", "userPrincipalName"}

// seenUsers are the accounts that Graph shows by now, filtered.
func (c *graphCall) seenUsers(t *tenant) ([]object, *graphError) {
	q := c.r.URL.Query()
	clauses, refused := parseFilter(q.Get("$filter"))
	if refused != nil {
		return nil, refused
	}
	eventual := c.r.Header.Get("ConsistencyLevel") == "eventual"
	counted := q.Get("$count") == "true" || strings.HasSuffix(c.r.URL.Path, "/$count")
	for _, clause := range clauses {
		if clause.advanced() && !(eventual && counted) {
			return nil, errFilter.of(clause.property)
		}
	}
	all := []object{}
	for _, u := range t.Users {
		if u.Visible.over(c.now) {
			all = append(all, userObject(u))
		}
	}
	return filtered(all, clauses, "id", "userPrincipalName", "mail", "accountEnabled", "displayName",
		"mailNickname", "userType", "assignedLicenses/$count")
}

func listUsers(c *graphCall, t *tenant) result {
	q := c.r.URL.Query()
	size := 100
	if text := q.Get("$top"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 999 {
			return refuse(errPageSize.of(text))
		}
		size = n
	}
	all, refused := c.seenUsers(t)
	if refused != nil {
		return refuse(refused)
	}
	rows, next := c.page(all, min(size, t.Behaviour.PageSize))
	names := c.selected()
	if names == nil {
		names = usualUser
	}
	values := []object{}
	for _, o := range rows {
		values = append(values, picked(o, names))
	}
	body := object{"@odata.context": c.context("users"), "value": values}
	if next != "" {
		body["@odata.nextLink"] = next
	}
	if q.Get("$count") == "true" && c.r.Header.Get("ConsistencyLevel") == "eventual" {
		body["@odata.count"] = len(all)
	}
	return result{status: http.StatusOK, body: body}
}

// countUsers answers GET /users/$count, an advanced query.
func countUsers(c *graphCall, t *tenant) result {
	if c.r.Header.Get("ConsistencyLevel") != "eventual" {
		return refuse(errFilter.of("$count"))
	}
	all, refused := c.seenUsers(t)
	if refused != nil {
		return refuse(refused)
	}
	return result{status: http.StatusOK, body: strconv.Itoa(len(all))}
}

// seenUser finds the account that the path names, once Graph shows it.
func (c *graphCall) seenUser(t *tenant) (*user, *graphError) {
	u := t.user(c.r.PathValue("id"))
	if u == nil || !u.Visible.over(c.now) {
		return nil, errNotFound.of(c.r.PathValue("id"))
	}
	return u, nil
}

func getUser(c *graphCall, t *tenant) result {
	u, refused := c.seenUser(t)
	if refused != nil {
		return refuse(refused)
	}
	o := userObject(*u)
	if c.selected() == nil {
		o = picked(o, usualUser)
	}
	return c.one(http.StatusOK, "users", o)
}

// deleteUser deletes softly, and the mailbox with the account.
func deleteUser(c *graphCall, t *tenant) result {
	u, refused := c.seenUser(t)
	if refused != nil {
		return refuse(refused)
	}
	t.removeAccount(u.ID)
	return result{status: http.StatusNoContent}
}

// removeAccount drops an account with its mailbox.
func (t *tenant) removeAccount(id string) {
	t.Users = slices.DeleteFunc(t.Users, func(u user) bool { return u.ID == id })
	t.Exchange.Mailboxes = slices.DeleteFunc(t.Exchange.Mailboxes, func(m mailbox) bool { return m.ObjectID == id })
}
