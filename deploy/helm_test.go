// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/command"
	"github.com/tenantry/tenantry/app/settings"
)

func TestHelmChartRenders(t *testing.T) {
	t.Parallel()
	withRequiredValues, err := renderChart(t, chartFolder, minimalValues())
	if err != nil {
		t.Fatal(err)
	}
	if got := kindsOf(withRequiredValues); got != "Deployment PodDisruptionBudget Service ServiceAccount" {
		t.Errorf("the required values render %s, want the kinds Deployment, PodDisruptionBudget, Service and ServiceAccount", got)
	}
	withOneReplica, err := renderChart(t, chartFolder, minimalValues(), object{"replicas": 1})
	if err != nil || strings.Contains(kindsOf(withOneReplica), "PodDisruptionBudget") {
		t.Errorf("one replica renders %s, %v, want no PodDisruptionBudget", kindsOf(withOneReplica), err)
	}
	withAllValues, err := renderChart(t, chartFolder, allValues())
	if err != nil {
		t.Fatal(err)
	}
	if got := kindsOf(withAllValues); got != "Deployment NetworkPolicy PodDisruptionBudget Service Service ServiceAccount ServiceMonitor" {
		t.Errorf("all values render %s, want the kinds of the required values, and NetworkPolicy, ServiceMonitor and a second Service", got)
	}
	pod := objectOfKind(t, withAllValues, "Deployment").member("spec.template.spec").(map[string]any)
	checkPod(t, pod)
	policy := fmt.Sprint(objectOfKind(t, withAllValues, "NetworkPolicy").member("spec.egress"))
	for _, allowed := range []string{"map[port:6379 protocol:TCP]", "map[port:8443 protocol:TCP]", "map[port:8443 protocol:UDP]"} {
		if !strings.Contains(policy, allowed) {
			t.Errorf("the network policy does not allow %s: %s", allowed, policy)
		}
	}
	for _, list := range []string{"containers", "initContainers"} {
		containers := object(pod).objects(list)
		if len(containers) != 1 {
			t.Errorf("the pod has %d %s, want one", len(containers), list)
		}
		for _, container := range containers {
			checkContainer(t, container)
		}
	}
}

// checkPod checks the privileges and ports of the pod. It starts the service and requests the paths
// of the probes. It compares the grace period of the pod with the default of drain_time.
func checkPod(t *testing.T, pod object) {
	t.Helper()
	checkMembers(t, pod, object{
		"automountServiceAccountToken": false, "securityContext.runAsNonRoot": true, "securityContext.runAsUser": 65532,
		"securityContext.seccompProfile.type": "RuntimeDefault",
	})
	container := pod.objects("containers")[0]
	grace, _ := pod["terminationGracePeriodSeconds"].(float64)
	if spare := time.Duration(grace)*time.Second - defaultDrainTime(t); spare < 10*time.Second {
		t.Errorf("the grace period is %s longer than drain_time, want at least 10s", spare)
	}
	ports := map[string]float64{}
	for _, port := range container.objects("ports") {
		ports[port.text("name")], _ = port["containerPort"].(float64)
	}
	if ports["http"] != 8080 || ports["admin"] != 9090 {
		t.Errorf("the ports are %v, want http 8080 and admin 9090", ports)
	}
	admin := serve(t, testserver.Program(t, "release/tenantry"), []string{"TENANTRY_DATA_DIR=" + t.TempDir()}).text("admin")
	for _, probe := range []string{"startupProbe", "livenessProbe", "readinessProbe"} {
		path, _ := container.member(probe + ".httpGet.path").(string)
		if status, _ := get(t, admin+path, ""); status != http.StatusOK || container.member(probe+".httpGet.port") != "admin" {
			t.Errorf("%s requests port %v, path %q, which answers %d, want the port admin and 200", probe, container.member(probe+".httpGet.port"), path, status)
		}
	}
}

var (
	pinnedImage   = regexp.MustCompile(`^[a-z0-9./-]+:[0-9][A-Za-z0-9._-]*$`)
	secretPattern = regexp.MustCompile(`(?i)password|secret|token|://[^/]*:[^/]*@|PRIVATE KEY`)
)

// checkContainer checks a container of the chart with allValues: the tag of its image, its
// environment variables and secrets, its volumes, its command and its security context.
func checkContainer(t *testing.T, container object) {
	t.Helper()
	checkMembers(t, container, object{
		"securityContext.readOnlyRootFilesystem": true, "securityContext.allowPrivilegeEscalation": false, "securityContext.capabilities.drop": "[ALL]",
	})
	if !pinnedImage.MatchString(container.text("image")) {
		t.Errorf("the image is %s, want a tag that begins with a digit", container.text("image"))
	}
	secretNames := map[string]string{"TENANTRY_DATABASE_URL": "tenantry-database", "TENANTRY_REDIS_URL": "tenantry-redis"}
	variablesWithSecret := 0
	for _, variable := range container.objects("env") {
		name, value := variable.text("name"), variable.text("value")
		if strings.HasPrefix(name, "TENANTRY_") {
			if key, _ := settings.SettingOfVariable(name, value); key == "" {
				t.Errorf("%s is not a setting", name)
			}
		}
		secretName, mustHaveSecret := secretNames[name]
		if mustHaveSecret {
			variablesWithSecret++
		}
		if secretPattern.MatchString(value) || mustHaveSecret && variable.member("valueFrom.secretKeyRef.name") != secretName {
			t.Errorf("%s contains a secret in clear text, or does not refer to the secret %q", name, secretName)
		}
	}
	if variablesWithSecret != len(secretNames) {
		t.Errorf("%s has %d variables with a secret, want those of %v", container.text("name"), variablesWithSecret, secretNames)
	}
	mounted := map[string]bool{}
	for _, mount := range container.objects("volumeMounts") {
		mounted[mount.text("mountPath")] = true
	}
	if !mounted["/tmp"] || !mounted["/etc/tenantry/keyset"] || !mounted["/etc/tenantry/microsoft365"] {
		t.Errorf("%s mounts %v, want /tmp, the keyset and the credential of the mail plugin among them", container.text("name"), mounted)
	}
	args, _ := container["args"].([]any)
	if cmd, _, err := command.Root().Find([]string{fmt.Sprint(args[0])}); err != nil || cmd.Name() != args[0] {
		t.Errorf("%s runs %v, which is not a command", container.text("name"), args)
	}
}

// TestHelmChartHidesTheAdminListener checks that a Service with a cluster IP exposes only the API
// port, and that the ServiceMonitor reads the metrics from the admin port.
func TestHelmChartHidesTheAdminListener(t *testing.T) {
	t.Parallel()
	objects, err := renderChart(t, chartFolder, allValues())
	if err != nil {
		t.Fatal(err)
	}
	exposesAPI := false
	for _, rendered := range objects {
		if rendered.text("kind") != "Service" {
			continue
		}
		spec := object(rendered["spec"].(map[string]any))
		for _, port := range spec.objects("ports") {
			if spec["clusterIP"] == "None" {
				continue
			}
			if port["targetPort"] == "http" {
				exposesAPI = true
			} else {
				t.Errorf("a Service with a cluster IP exposes the port %v, want only the port http", port)
			}
		}
	}
	if !exposesAPI {
		t.Error("no Service with a cluster IP exposes the port http")
	}
	monitor := objectOfKind(t, objects, "ServiceMonitor")
	if got := fmt.Sprint(monitor.member("spec.endpoints")); got != "[map[interval:30s path:/metrics port:admin]]" {
		t.Errorf("the monitor reads %s, want /metrics of the port admin every 30s", got)
	}
}

// TestHelmChartRefusesInvalidValues checks that the chart refuses invalid values, and that
// renderChart refuses a template with a field that Kubernetes does not have.
func TestHelmChartRefusesInvalidValues(t *testing.T) {
	t.Parallel()
	for name, invalidValues := range map[string]object{
		"nothing is set":               nil,
		"a public URL with plain HTTP": {"publicURL": "http://api.tenantry.example"},
		"a public URL with a path":     {"publicURL": "https://api.tenantry.example/"},
		"no secret of the database":    {"database": object{"existingSecret": ""}},
		"no secret of the mail plugin": {"microsoft365": object{"clientID": "5f1c2b7e-0000-4c1d-9a2b-111122223333"}},
		"the image tag latest":         {"image": object{"tag": "latest"}},
		"a database URL as a setting":  {"settings": object{"database_url": "postgres://u:p@h/d"}},
		"a Redis URL as a setting":     {"settings": object{"redis_url": "redis://:p@h/0"}},
		"headers as a setting":         {"settings": object{"plugin_otlp_headers": "k=v"}},
		"a secret in telemetry":        {"telemetry": object{"OTEL_EXPORTER_OTLP_HEADERS": "k=v"}},
		"a port as a text":             {"networkPolicy": object{"egressPorts": []string{"8443"}}},
		"a misspelt value":             {"replicaCount": 3},
	} {
		values := []object{minimalValues(), invalidValues}
		if invalidValues == nil {
			values = nil
		}
		if _, err := renderChart(t, chartFolder, values...); err == nil {
			t.Errorf("%s: the chart accepts these values, want an error", name)
		}
	}
	chartCopy := t.TempDir()
	if err := os.CopyFS(chartCopy, os.DirFS(chartFolder)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(chartCopy, "templates", "deployment.yaml")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(raw), "  replicas:", "  replica:", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := renderChart(t, chartCopy, minimalValues()); err == nil || !strings.Contains(err.Error(), "replica") {
		t.Errorf("a misspelt field: %v, want an error about replica", err)
	}
}

const chartFolder = "helm/tenantry"

// renderChart renders the chart in a folder with these values, and checks the rendered objects. It
// runs the program of .ci/chart, which uses the code of Helm and Kubernetes.
func renderChart(t *testing.T, folder string, values ...object) ([]object, error) {
	t.Helper()
	args := []string{folder}
	for i, valuesOfFile := range values {
		document, err := json.Marshal(valuesOfFile) // JSON is valid YAML
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), fmt.Sprintf("%d.yaml", i))
		if err := os.WriteFile(file, document, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, file)
	}
	cmd := exec.Command(testserver.Program(t, "chart"), args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, &errs)
	}
	var objects []object
	err = json.Unmarshal(out, &objects)
	return objects, err
}

// minimalValues returns the values that the chart requires.
func minimalValues() object {
	return object{
		"publicURL": "https://api.tenantry.example",
		"database":  object{"existingSecret": "tenantry-database"},
		"keyset":    object{"existingSecret": "tenantry-keyset"},
	}
}

// allValues returns values that enable all parts of the chart.
func allValues() object {
	values := minimalValues()
	values["microsoft365"] = object{"clientID": "5f1c2b7e-0000-4c1d-9a2b-111122223333", "existingSecret": "tenantry-microsoft365", "settings": object{"home_tenant": "example.onmicrosoft.com"}}
	values["redis"] = object{"existingSecret": "tenantry-redis"}
	values["settings"] = object{"log_level": "debug", "require_smtp_auth": false}
	values["telemetry"] = object{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
	values["telemetrySecret"] = "tenantry-telemetry"
	values["serviceMonitor"] = object{"enabled": true}
	values["networkPolicy"] = object{"enabled": true, "egressPorts": []int{8443}, "monitoring": []object{{"namespaceSelector": object{}}}}
	return values
}

// kindsOf returns the kinds of the objects, sorted and separated by spaces.
func kindsOf(objects []object) string {
	var kinds []string
	for _, o := range objects {
		kinds = append(kinds, o.text("kind"))
	}
	slices.Sort(kinds)
	return strings.Join(kinds, " ")
}

// objectOfKind returns the first object of the kind. It fails the test if no object has the kind.
func objectOfKind(t *testing.T, objects []object, kind string) object {
	t.Helper()
	for _, o := range objects {
		if o.text("kind") == kind {
			return o
		}
	}
	t.Fatalf("no %s is rendered", kind)
	return nil
}
