// SPDX-License-Identifier: Apache-2.0

package pluginhost

import (
	"strings"

	"github.com/tenantry/tenantry/core/secret"
)

// allowed are the variables that a plugin gets of the host's environment:
// where its spans go, which authorities it trusts and the time zone. Anything
// else may be a secret.
var allowed = []string{
	"OTEL_EXPORTER_OTLP_ENDPOINT",
	"OTEL_EXPORTER_OTLP_PROTOCOL",
	"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
	"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
	"OTEL_SDK_DISABLED",
	"OTEL_TRACES_EXPORTER",
	"OTEL_TRACES_SAMPLER",
	"OTEL_TRACES_SAMPLER_ARG",
	"SSL_CERT_FILE",
	"TZ",
}

// environment is what the plugin with this name gets. The headers of the span
// exporter hold its credentials, so they go along only when the operator set
// them for plugins.
func environment(name string, host []string, telemetryHeaders secret.Text) []string {
	var env []string
	for _, variable := range host {
		key, value, _ := strings.Cut(variable, "=")
		for _, a := range allowed {
			// A URL with user information holds a password.
			if key == a && !strings.Contains(value, "@") {
				env = append(env, variable)
			}
		}
	}
	env = append(env, "OTEL_SERVICE_NAME=tenantry-plugin-"+name)
	if !telemetryHeaders.Empty() {
		env = append(env, "OTEL_EXPORTER_OTLP_HEADERS="+telemetryHeaders.Reveal())
	}
	return env
}
