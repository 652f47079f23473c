// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// readCredential returns the instance and the token of a connection. The instance is in
// instance_url, or in api_key in the form https://instance#token. If both contain an instance, the
// two instances must be equal. The error texts quote neither the settings nor the token.
func readCredential(connection sdk.Connection, allowPrivate bool) (instance string, token sdk.Secret, err error) {
	apiKey := strings.TrimSpace(connection.Secrets["api_key"].Reveal())
	instanceURL := strings.TrimSpace(connection.Settings["instance_url"])
	tokenText := apiKey
	if strings.Contains(apiKey, "://") {
		instanceInKey, afterHash, hasToken := strings.Cut(apiKey, "#")
		if !hasToken {
			return "", token, sdk.Misconfigured("api_key", "a URL must be followed by # and the token, as in https://instance#token")
		}
		var ok bool
		if instance, ok = parseInstance(instanceInKey, allowPrivate); !ok {
			return "", token, sdk.Misconfigured("api_key", "its URL must be https:// and a host, without a query or a path other than /api")
		}
		tokenText = afterHash
	}
	if instanceURL != "" {
		parsed, ok := parseInstance(instanceURL, allowPrivate)
		switch {
		case !ok:
			return "", token, sdk.Misconfigured("instance_url", "it must be https:// and a host, without a query or a path other than /api")
		case instance != "" && parsed != instance:
			return "", token, sdk.Misconfigured("instance_url", "api_key names a different instance")
		}
		instance = parsed
	}
	switch {
	case instance == "":
		return "", token, sdk.Misconfigured("instance_url", "it is missing: set it, or set api_key to https://instance#token")
	case tokenText == "" || strings.ContainsFunc(tokenText, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", token, sdk.Misconfigured("api_key", "the token is missing or contains an invalid character")
	}
	return instance, sdk.NewSecret(tokenText), nil
}

// parseInstance returns the scheme, host and port of an instance, without the path /api. ok is
// false if text is not an allowed instance. The scheme must be https, because requests contain the
// token. If allowPrivate is true, http is allowed for loopback addresses, because the simulator
// uses http. The guarded HTTP client checks the address when it connects.
func parseInstance(text string, allowPrivate bool) (instance string, ok bool) {
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Opaque != "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" ||
		!slices.Contains([]string{"", "/", "/api", "/api/"}, u.Path) {
		return "", false
	}
	if u.Scheme == "http" {
		address, err := netip.ParseAddr(u.Hostname())
		if !allowPrivate || err != nil || !address.IsLoopback() {
			return "", false
		}
	} else if u.Scheme != "https" {
		return "", false
	}
	return u.Scheme + "://" + strings.ToLower(u.Host), true
}
