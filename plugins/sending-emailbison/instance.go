// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// readCredential takes the instance from instance_url or from the front of
// api_key. Errors quote neither.
func readCredential(c sdk.Connection, private bool) (instance string, token sdk.Secret, err error) {
	text := strings.TrimSpace(c.Secrets["api_key"].Reveal())
	named := strings.TrimSpace(c.Settings["instance_url"])
	var places []string
	if named != "" {
		places = append(places, named)
	}
	if strings.Contains(text, "://") {
		place, rest, whole := strings.Cut(text, "#")
		if !whole {
			return "", token, sdk.Misconfigured("api_key", "with an instance it is https://instance#token")
		}
		places, text = append(places, place), rest
	}
	for _, place := range places {
		read, ok := readInstance(place, private)
		switch {
		case !ok:
			return "", token, sdk.Misconfigured("instance_url", "it is https:// and a host, with nothing behind it")
		case instance != "" && read != instance:
			return "", token, sdk.Misconfigured("instance_url", "api_key names another instance")
		}
		instance = read
	}
	switch {
	case instance == "":
		return "", token, sdk.Misconfigured("instance_url", "every customer has an instance of EmailBison: name it here, or give api_key as https://instance#token")
	case text == "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", token, sdk.Misconfigured("api_key", "the token is missing or holds what no token does")
	}
	return instance, sdk.NewSecret(text), nil
}

// readInstance gives scheme and host of an instance. Whoever names it makes us
// call it with a token, so it is https; http will do on loopback alone, for the
// simulator, and only if the operator lets private addresses be called. Where
// the name leads is looked at when it is dialed.
func readInstance(text string, private bool) (string, bool) {
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Opaque != "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" ||
		!slices.Contains([]string{"", "/", "/api", "/api/"}, u.Path) {
		return "", false
	}
	if u.Scheme == "http" {
		at, err := netip.ParseAddr(u.Hostname())
		if !private || err != nil || !at.IsLoopback() {
			return "", false
		}
	} else if u.Scheme != "https" {
		return "", false
	}
	return u.Scheme + "://" + strings.ToLower(u.Host), true
}
