// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// updateUser answers PATCH /users/{id}. Each property has its permission: a
// password and the state of the account need more than User.ReadWrite.All.
func updateUser(c *graphCall, t *tenant) result {
	in, refused := c.read()
	if refused == nil {
		refused = only(in, "accountEnabled", "passwordProfile", "passwordPolicies", "userPrincipalName",
			"displayName", "mailNickname", "usageLocation")
	}
	if refused == nil {
		refused = c.mayUpdate(in)
	}
	if refused != nil {
		return refuse(refused)
	}
	u, refused := c.seenUser(t)
	if refused != nil {
		return refuse(refused)
	}
	changed := *u
	for name, v := range in {
		if refused := t.change(&changed, name, v); refused != nil {
			return refuse(refused)
		}
	}
	*u = changed
	return result{status: http.StatusNoContent}
}

func (c *graphCall) mayUpdate(in object) *graphError {
	for name := range in {
		ok := c.may(userReadWrite)
		switch name {
		case "passwordProfile":
			ok = c.may(passwordReadWrite)
		case "accountEnabled":
			ok = c.may(enableAccount)
		}
		if !ok {
			return errDenied.of("")
		}
	}
	return nil
}

// change sets one property of an account.
func (t *tenant) change(u *user, name string, v any) *graphError {
	text, isText := v.(string)
	switch name {
	case "accountEnabled":
		on, ok := v.(bool)
		if !ok {
			return errValues.of("")
		}
		u.Enabled = on
		return nil
	case "passwordProfile":
		return u.setPassword(v, t.Behaviour.BannedWords)
	}
	if !isText {
		return errValues.of("")
	}
	switch name {
	case "passwordPolicies":
		u.Policies = text
	case "displayName":
		u.DisplayName = text
	case "mailNickname":
		u.Nickname = text
	case "userPrincipalName":
		return t.rename(u, text)
	}
	return nil
}

// rename changes a sign-in name: its domain is verified here and nobody else
// has it.
func (t *tenant) rename(u *user, upn string) *graphError {
	local, name, ok := strings.Cut(upn, "@")
	d := t.domain(name)
	if !ok || local == "" || !strings.EqualFold(name, t.initial()) && (d == nil || !d.Verified) {
		return errValues.of("")
	}
	if other := t.user(upn); other != nil && other.ID != u.ID {
		return errConflict.of("")
	}
	u.UPN = upn
	return nil
}

// setPassword keeps only that there is one.
func (u *user) setPassword(v any, bannedWords []string) *graphError {
	profile, ok := v.(object)
	if !ok {
		return errValues.of("")
	}
	if refused := only(profile, "password", "forceChangePasswordNextSignIn",
		"forceChangePasswordNextSignInWithMfa"); refused != nil {
		return refused
	}
	password, given := profile["password"].(string)
	if given && (!strong(password) || banned(password, bannedWords)) {
		return errPassword.of("")
	}
	u.PasswordSet = u.PasswordSet || given
	return nil
}

// strong checks the platform's rule: 8 to 256 characters, three of the four
// classes.
func strong(password string) bool {
	n := utf8.RuneCountInString(password)
	var classes [4]bool
	for _, r := range password {
		switch {
		case unicode.IsLower(r):
			classes[0] = true
		case unicode.IsUpper(r):
			classes[1] = true
		case unicode.IsDigit(r):
			classes[2] = true
		default:
			classes[3] = true
		}
	}
	used := 0
	for _, c := range classes {
		if c {
			used++
		}
	}
	return n >= 8 && n <= 256 && used >= 3
}

// banned takes digits and symbols off both ends, undoes the usual letter
// substitutions and looks whether a banned word is left. The platform does not
// publish its list, so here it is what a tenant's knob says.
func banned(password string, words []string) bool {
	word := strings.TrimFunc(strings.ToLower(password), func(r rune) bool { return !unicode.IsLetter(r) })
	plain := strings.NewReplacer("@", "a", "0", "o", "$", "s", "1", "l").Replace(word)
	return slices.Contains(words, plain)
}
