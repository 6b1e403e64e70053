/* A small libnvidia-ml.so.1 that is scripted from outside while it runs: the file named by FAKE_NVML is read again
 * whenever it changes. Lines:
 *   gpu N KEY VALUE          a value of physical GPU N
 *   count N                  how many devices there are
 *   map INDEX GPU            which GPU an index means, taken at the next nvmlInit
 *   error GPU FN CODE        GPU or FN may be *; GPU - is for functions without a device
 *   delay GPU FN MS
 *   hang GPU FN              until the line is gone; no signal but KILL gets through
 *   crash GPU FN             a native segmentation fault
 *   missing FN               answers FUNCTION_NOT_FOUND
 *   garbage GPU FN           a text of bytes that are no text, without an end
 *   xid NUMBER GPU CODE      an event; NUMBER ascends, each is delivered once
 * Where FAKE_NVML_COUNT names a file of eight bytes, all calls of all processes are counted in it.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define GPUS 64
#define RULES 512
#define PAIRS 96
#define XIDS 256
#define OK 0
#define UNINITIALIZED 1
#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define NOT_FOUND 6
#define INSUFFICIENT_SIZE 7
#define TIMEOUT 10
#define FUNCTION_NOT_FOUND 13

typedef unsigned int u32;
typedef unsigned long long u64;
typedef struct { char key[40]; char value[96]; } Pair;
typedef struct { Pair pairs[PAIRS]; int used; } Gpu;
typedef struct { char kind[8], gpu[8], fn[64]; long value; } Rule;

static Gpu gpus[GPUS];
static Rule rules[RULES];
static int rule_count, device_count, initialized;
static struct { int number, gpu, code; } xids[XIDS];
static int xid_count, xid_delivered;
static u64 watched; /* a bit per GPU */
static int map_next[GPUS], map_now[GPUS];
static struct timespec seen;
static long seen_size = -1;

static void set_pair(Gpu *gpu, const char *key, const char *value) {
    for (int i = 0; i < gpu->used; i++)
        if (!strcmp(gpu->pairs[i].key, key)) { snprintf(gpu->pairs[i].value, 96, "%s", value); return; }
    if (gpu->used < PAIRS) {
        snprintf(gpu->pairs[gpu->used].key, 40, "%s", key);
        snprintf(gpu->pairs[gpu->used++].value, 96, "%s", value);
    }
}

/* Threads may call at the same time: what is read of the script is copied under this lock. */
static pthread_mutex_t script = PTHREAD_MUTEX_INITIALIZER;

static void reload_locked(void) {
    const char *path = getenv("FAKE_NVML");
    struct stat now;
    if (!path || stat(path, &now)) return;
    if (now.st_mtim.tv_sec == seen.tv_sec && now.st_mtim.tv_nsec == seen.tv_nsec && now.st_size == seen_size) return;
    FILE *file = fopen(path, "r");
    if (!file) return;
    seen = now.st_mtim;
    seen_size = now.st_size;
    memset(gpus, 0, sizeof gpus);
    rule_count = xid_count = 0;
    for (int i = 0; i < GPUS; i++) map_next[i] = i;
    char line[256], a[64], b[64], c[96];
    while (fgets(line, sizeof line, file)) {
        char word[16] = "";
        a[0] = b[0] = c[0] = 0;
        int n = sscanf(line, "%15s %63s %63s %95[^\n]", word, a, b, c);
        if (n < 2) continue;
        if (!strcmp(word, "gpu") && n == 4) set_pair(&gpus[atoi(a) % GPUS], b, c);
        else if (!strcmp(word, "count")) device_count = atoi(a);
        else if (!strcmp(word, "map")) map_next[atoi(a) % GPUS] = atoi(b);
        else if (!strcmp(word, "xid")) {
            if (xid_count < XIDS) {
                xids[xid_count].number = atoi(a);
                xids[xid_count].gpu = atoi(b);
                xids[xid_count++].code = atoi(c);
            }
        } else if (rule_count < RULES) {
            Rule *rule = &rules[rule_count++];
            snprintf(rule->kind, 8, "%s", word);
            if (!strcmp(word, "missing")) { strcpy(rule->gpu, "*"); snprintf(rule->fn, 64, "%s", a); }
            else { snprintf(rule->gpu, 8, "%s", a); snprintf(rule->fn, 64, "%s", b); rule->value = atol(c); }
        }
    }
    fclose(file);
}

static void reload(void) {
    pthread_mutex_lock(&script);
    reload_locked();
    pthread_mutex_unlock(&script);
}

static Rule *find_rule(const char *kind, int gpu, const char *fn) {
    for (int i = 0; i < rule_count; i++) {
        Rule *rule = &rules[i];
        int same_gpu = !strcmp(rule->gpu, "*") ? gpu >= 0 : !strcmp(rule->gpu, "-") ? gpu < 0 : atoi(rule->gpu) == gpu;
        if (!strcmp(kind, "missing")) same_gpu = 1;
        if (!strcmp(rule->kind, kind) && same_gpu && (!strcmp(rule->fn, "*") || !strcmp(rule->fn, fn))) return rule;
    }
    return NULL;
}

static void count_call(void) {
    static u64 *calls;
    static int tried;
    const char *path = getenv("FAKE_NVML_COUNT");
    if (!tried && path) {
        int file = open(path, O_RDWR);
        void *memory = file < 0 ? MAP_FAILED : mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (memory != MAP_FAILED) calls = memory;
    }
    tried = 1;
    if (calls) __sync_fetch_and_add(calls, 1);
}

/* For functions that are only there so that other programs load: see `with_stubs`. */
int fake_nvml_stub(void) { count_call(); return NOT_SUPPORTED; }

static Rule *rule_for(const char *kind, int gpu, const char *fn) {
    static __thread Rule copy;
    pthread_mutex_lock(&script);
    Rule *rule = find_rule(kind, gpu, fn);
    if (rule) copy = *rule;
    pthread_mutex_unlock(&script);
    return rule ? &copy : NULL;
}

/* What every call goes through. gpu = -1: no device. */
static int enter(int gpu, const char *fn) {
    count_call();
    reload();
    Rule *rule;
    if (rule_for("missing", gpu, fn)) return FUNCTION_NOT_FOUND;
    if ((rule = rule_for("delay", gpu, fn))) usleep(rule->value * 1000);
    if (rule_for("crash", gpu, fn)) { signal(SIGSEGV, SIG_DFL); raise(SIGSEGV); }
    if (rule_for("hang", gpu, fn)) {
        sigset_t all, before;
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, &before);
        while (rule_for("hang", gpu, fn)) { usleep(20000); reload(); }
        sigprocmask(SIG_SETMASK, &before, NULL);
    }
    if ((rule = rule_for("error", gpu, fn))) return (int)rule->value;
    return OK;
}

static const char *text_of(int gpu, const char *key) {
    static __thread char copies[8][96];
    static __thread unsigned next;
    char *copy = NULL;
    pthread_mutex_lock(&script);
    for (int i = 0; i < gpus[gpu].used && !copy; i++)
        if (!strcmp(gpus[gpu].pairs[i].key, key)) copy = strcpy(copies[next++ % 8], gpus[gpu].pairs[i].value);
    pthread_mutex_unlock(&script);
    return copy;
}

static int number(int gpu, const char *fn, const char *key, u64 *out) {
    int code = enter(gpu, fn);
    if (code) return code;
    const char *text = text_of(gpu, key);
    if (!text) return NOT_SUPPORTED;
    *out = strtoull(text, NULL, 0);
    return OK;
}

static int number32(int gpu, const char *fn, const char *key, u32 *out) {
    u64 value;
    int code = number(gpu, fn, key, &value);
    if (!code) *out = (u32)value;
    return code;
}

static int text(int gpu, const char *fn, const char *key, char *out, u32 size) {
    int code = enter(gpu, fn);
    if (code) return code;
    if (rule_for("garbage", gpu, fn)) { memset(out, 0xff, size); return OK; }
    const char *value = text_of(gpu, key);
    if (!value) return NOT_SUPPORTED;
    snprintf(out, size, "%s", value);
    return OK;
}

/* A MIG device is the GPU and its place from 1 on. */
#define GPU(handle) ((int)((size_t)(handle) - 4096) % GPUS)
#define PLACE(handle) ((int)((size_t)(handle) - 4096) / GPUS)

int nvmlInitWithFlags(u32 flags) {
    (void)flags;
    int code = enter(-1, "nvmlInit");
    if (!code) { memcpy(map_now, map_next, sizeof map_now); initialized = 1; }
    return code;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { initialized = 0; return enter(-1, "nvmlShutdown"); }
const char *nvmlErrorString(int code) { static char out[32]; snprintf(out, 32, "fake error %d", code); return out; }
int nvmlSystemGetDriverVersion(char *out, u32 size) {
    int code = enter(-1, "nvmlSystemGetDriverVersion");
    if (!code) snprintf(out, size, "570.124.06");
    return code;
}
int nvmlDeviceGetCount_v2(u32 *out) {
    int code = enter(-1, "nvmlDeviceGetCount");
    if (!initialized) return UNINITIALIZED;
    if (!code) *out = device_count;
    return code;
}
int nvmlDeviceGetHandleByIndex_v2(u32 index, void **out) {
    reload();
    if (!initialized) return UNINITIALIZED;
    if (index >= GPUS || (int)index >= device_count) return INVALID_ARGUMENT;
    int code = enter(map_now[index], "nvmlDeviceGetHandleByIndex");
    if (!code) *out = (void *)(size_t)(4096 + map_now[index]);
    return code;
}
int nvmlDeviceGetUUID(void *h, char *out, u32 size) {
    char key[40] = "uuid";
    if (PLACE(h)) snprintf(key, 40, "mig_uuid_%d", PLACE(h) - 1);
    return text(GPU(h), "nvmlDeviceGetUUID", key, out, size);
}
int nvmlDeviceGetName(void *h, char *out, u32 size) { return text(GPU(h), "nvmlDeviceGetName", "name", out, size); }
int nvmlDeviceGetSerial(void *h, char *out, u32 size) { return text(GPU(h), "nvmlDeviceGetSerial", "serial", out, size); }
typedef struct { char legacy[16]; u32 domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
int nvmlDeviceGetPciInfo_v3(void *h, Pci *out) {
    memset(out, 0, sizeof *out);
    return text(GPU(h), "nvmlDeviceGetPciInfo", "pci", out->bus_id, 32);
}
int nvmlDeviceGetPowerUsage(void *h, u32 *out) { return number32(GPU(h), "nvmlDeviceGetPowerUsage", "power_mw", out); }
int nvmlDeviceGetEnforcedPowerLimit(void *h, u32 *out) {
    return number32(GPU(h), "nvmlDeviceGetEnforcedPowerLimit", "limit_mw", out);
}
int nvmlDeviceGetTotalEnergyConsumption(void *h, u64 *out) {
    return number(GPU(h), "nvmlDeviceGetTotalEnergyConsumption", "energy_mj", out);
}
int nvmlDeviceGetUtilizationRates(void *h, u32 out[2]) {
    int code = number32(GPU(h), "nvmlDeviceGetUtilizationRates", "util", &out[0]);
    if (!code) { const char *memory = text_of(GPU(h), "util_memory"); out[1] = memory ? (u32)atoi(memory) : 0; }
    return code;
}
int nvmlDeviceGetMemoryInfo(void *h, u64 out[3]) {
    if (PLACE(h)) { out[0] = 10ull << 30; out[1] = 7ull << 30; out[2] = 3ull << 30; return OK; }
    int code = number(GPU(h), "nvmlDeviceGetMemoryInfo", "memory_total", &out[0]);
    if (!code) { const char *used = text_of(GPU(h), "memory_used"); out[2] = used ? strtoull(used, 0, 0) : 0; out[1] = out[0] - out[2]; }
    return code;
}
int nvmlDeviceGetTemperature(void *h, u32 sensor, u32 *out) {
    (void)sensor;
    return number32(GPU(h), "nvmlDeviceGetTemperature", "temperature", out);
}
int nvmlDeviceGetClockInfo(void *h, u32 type, u32 *out) {
    (void)type;
    return number32(GPU(h), "nvmlDeviceGetClockInfo", "sm_clock", out);
}
int nvmlDeviceGetMaxClockInfo(void *h, u32 type, u32 *out) {
    (void)type;
    return number32(GPU(h), "nvmlDeviceGetMaxClockInfo", "sm_clock_max", out);
}
int nvmlDeviceGetTotalEccErrors(void *h, u32 type, u32 counter, u64 *out) {
    char key[40];
    snprintf(key, 40, "ecc_%s_%s", counter ? "aggregate" : "volatile", type ? "uncorrected" : "corrected");
    return number(GPU(h), "nvmlDeviceGetTotalEccErrors", key, out);
}
int nvmlDeviceGetMemoryErrorCounter(void *h, u32 type, u32 counter, u32 location, u64 *out) {
    char key[40];
    snprintf(key, 40, "ecc_%s_%s_%u", counter ? "aggregate" : "volatile", type ? "uncorrected" : "corrected", location);
    return number(GPU(h), "nvmlDeviceGetMemoryErrorCounter", key, out);
}
int nvmlDeviceGetRemappedRows(void *h, u32 *corrected, u32 *uncorrected, u32 *pending, u32 *failed) {
    int gpu = GPU(h), code = number32(gpu, "nvmlDeviceGetRemappedRows", "remapped_uncorrected", uncorrected);
    if (code) return code;
    const char *a = text_of(gpu, "remapped_corrected"), *b = text_of(gpu, "remap_pending"), *c = text_of(gpu, "remap_failed");
    *corrected = a ? atoi(a) : 0;
    *pending = b ? atoi(b) : 0;
    *failed = c ? atoi(c) : 0;
    return OK;
}
typedef struct { u32 pid; u64 memory; u32 gpu_instance, compute_instance; } Process;
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, u32 *count, Process *out) {
    u64 wanted;
    int code = number(GPU(h), "nvmlDeviceGetComputeRunningProcesses", "processes", &wanted);
    if (code) return code;
    u32 room = *count;
    *count = (u32)wanted;
    if (room < wanted) return INSUFFICIENT_SIZE;
    for (u32 i = 0; i < wanted; i++) { memset(&out[i], 0, sizeof out[i]); out[i].pid = 4242 + i; }
    return OK;
}
int nvmlDeviceGetMigMode(void *h, u32 *current, u32 *pending) {
    int code = number32(GPU(h), "nvmlDeviceGetMigMode", "mig", current);
    if (!code) *pending = *current;
    return code;
}
int nvmlDeviceGetMaxMigDeviceCount(void *h, u32 *out) {
    *out = 7;
    return enter(GPU(h), "nvmlDeviceGetMaxMigDeviceCount");
}
int nvmlDeviceGetMigDeviceHandleByIndex(void *h, u32 place, void **out) {
    char key[40];
    snprintf(key, 40, "mig_uuid_%u", place);
    int code = enter(GPU(h), "nvmlDeviceGetMigDeviceHandleByIndex");
    if (!code && !text_of(GPU(h), key)) return NOT_FOUND;
    *out = (void *)((size_t)h + (place + 1) * GPUS);
    return code;
}
typedef struct { u32 version; unsigned char cluster[16]; u32 status, clique; unsigned char state; u32 health; } Fabric;
int nvmlDeviceGetGpuFabricInfoV(void *h, Fabric *out) {
    u32 state;
    int code = number32(GPU(h), "nvmlDeviceGetGpuFabricInfoV", "fabric_state", &state);
    if (code) return code;
    const char *health = text_of(GPU(h), "fabric_health"), *status = text_of(GPU(h), "fabric_status");
    out->state = (unsigned char)state;
    out->health = health ? (u32)strtoul(health, NULL, 0) : 0;
    out->status = status ? (u32)atoi(status) : 0;
    return OK;
}
int nvmlDeviceGetPcieThroughput(void *h, u32 received, u32 *out) {
    return number32(GPU(h), "nvmlDeviceGetPcieThroughput", received ? "pcie_rx_kb" : "pcie_tx_kb", out);
}
typedef struct { u32 version; int sensor, value; } Temperature;
int nvmlDeviceGetTemperatureV(void *h, Temperature *out) {
    return number32(GPU(h), "nvmlDeviceGetTemperatureV", "temperature", (u32 *)&out->value);
}
int nvmlDeviceGetCurrentClocksEventReasons(void *h, u64 *out) {
    return number(GPU(h), "nvmlDeviceGetCurrentClocksEventReasons", "reasons", out);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *h, u64 *out) {
    return number(GPU(h), "nvmlDeviceGetCurrentClocksThrottleReasons", "reasons", out);
}
int nvmlDeviceGetEccMode(void *h, u32 *current, u32 *pending) {
    int code = number32(GPU(h), "nvmlDeviceGetEccMode", "ecc_mode", current);
    if (!code) *pending = *current;
    return code;
}
int nvmlDeviceGetCurrPcieLinkWidth(void *h, u32 *out) {
    return number32(GPU(h), "nvmlDeviceGetCurrPcieLinkWidth", "pcie_width", out);
}
int nvmlDeviceGetMaxPcieLinkWidth(void *h, u32 *out) {
    return number32(GPU(h), "nvmlDeviceGetMaxPcieLinkWidth", "pcie_width_max", out);
}
int nvmlDeviceGetCurrPcieLinkGeneration(void *h, u32 *out) {
    return number32(GPU(h), "nvmlDeviceGetCurrPcieLinkGeneration", "pcie_generation", out);
}
int nvmlDeviceGetPcieReplayCounter(void *h, u32 *out) {
    return number32(GPU(h), "nvmlDeviceGetPcieReplayCounter", "pcie_replay", out);
}
/* `nvlinks` is a string of 0 and 1, a link each */
int nvmlDeviceGetNvLinkState(void *h, u32 link, u32 *active) {
    int code = enter(GPU(h), "nvmlDeviceGetNvLinkState");
    if (code) return code;
    const char *links = text_of(GPU(h), "nvlinks");
    if (!links) return NOT_SUPPORTED;
    if (link >= strlen(links)) return INVALID_ARGUMENT;
    *active = links[link] == '1';
    return OK;
}
/* `field_ID` is the value of field ID, `field_ID_SCOPE` that of one scope; always of type unsigned long long */
typedef struct { u32 id, scope; long long timestamp, latency; int type, code; u64 value; } FieldValue;
int nvmlDeviceGetFieldValues(void *h, int count, FieldValue *values) {
    int code = enter(GPU(h), "nvmlDeviceGetFieldValues");
    if (code) return code;
    for (int i = 0; i < count; i++) {
        char key[40];
        snprintf(key, 40, "field_%u_%u", values[i].id, values[i].scope);
        const char *text = text_of(GPU(h), key);
        if (!text) { *strrchr(key, '_') = 0; text = text_of(GPU(h), key); }
        values[i].code = text ? OK : NOT_SUPPORTED;
        values[i].type = 3;
        if (text) values[i].value = strtoull(text, NULL, 0);
    }
    return OK;
}
typedef struct { void *device; u64 type, data; u32 instance, compute; } Event;
int nvmlEventSetCreate(void **set) {
    int code = enter(-1, "nvmlEventSetCreate");
    if (code) return code;
    *set = &watched;
    for (int i = 0; i < xid_count; i++)
        if (xids[i].number > xid_delivered) xid_delivered = xids[i].number; /* what was before is not seen */
    return OK;
}
int nvmlEventSetFree(void *set) { (void)set; watched = 0; return OK; }
int nvmlDeviceRegisterEvents(void *h, u64 types, void *set) {
    (void)types; (void)set;
    int code = enter(GPU(h), "nvmlDeviceRegisterEvents");
    if (!code) watched |= 1ull << GPU(h);
    return code;
}
int nvmlEventSetWait_v2(void *set, Event *out, u32 milliseconds) {
    (void)set;
    int code = enter(-1, "nvmlEventSetWait");
    if (code) return code;
    for (int i = 0; i < xid_count; i++) {
        if (xids[i].number <= xid_delivered) continue;
        xid_delivered = xids[i].number;
        if (!(watched >> xids[i].gpu & 1)) continue;
        *out = (Event){ (void *)(size_t)(4096 + xids[i].gpu), 8, (u64)xids[i].code, 0xffffffff, 0xffffffff };
        return OK;
    }
    usleep(milliseconds * 1000);
    return TIMEOUT;
}
