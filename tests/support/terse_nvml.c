/* A second libnvidia-ml.so.1, by the letter of NVML's documentation where the scripted one is obliging: handles are new
 * each time and die with their session, newer names are there and say that this card does not support them, structures
 * are of another version, values that are not known are passed over in silence, and half of the symbols is missing.
 * Files in the folder TERSE_NVML drive it: `lostN` for a GPU that fell off the bus, `xidN` for an event of GPU N.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GPUS 4
#define INSUFFICIENT_SIZE 7
enum { OK, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, TIMEOUT = 10, GPU_IS_LOST = 15, VERSION_MISMATCH = 25 };

typedef unsigned int u32;
typedef unsigned long long u64;
typedef struct { int session, gpu; } Device;
typedef struct { u32 pid; u64 memory; u32 instance, compute; } Process;
typedef struct { u32 id, scope; long long at, latency; u32 type; int code; u64 value; } FieldValue;
typedef struct { Device *device; u64 type, data; u32 instance, compute; } Event;

static int session, is_open, told[GPUS];

static int is_there(const char *kind, int gpu) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s%d", getenv("TERSE_NVML"), kind, gpu);
    return !access(path, F_OK);
}

static Device *handle(int gpu) {
    Device *made = malloc(sizeof *made);
    *made = (Device){session, gpu};
    return made;
}

static int enter(const Device *device) {
    if (!is_open) return UNINITIALIZED;
    if (!device || device->session != session) return INVALID_ARGUMENT;
    return is_there("lost", device->gpu) ? GPU_IS_LOST : OK;
}

static int text(char *out, u32 size, const char *said) {
    if (strlen(said) >= size) return INSUFFICIENT_SIZE;
    strcpy(out, said);
    return OK;
}

int nvmlInit_v2(void) { session += !is_open; is_open = 1; return OK; }
int nvmlInitWithFlags(u32 flags) { (void)flags; return nvmlInit_v2(); }
int nvmlShutdown(void) { is_open = 0; return OK; }
const char *nvmlErrorString(int code) { return code == GPU_IS_LOST ? "GPU is lost" : "an error"; }
int nvmlDeviceGetCount_v2(u32 *count) { *count = GPUS; return is_open ? OK : UNINITIALIZED; }

int nvmlDeviceGetHandleByIndex_v2(u32 index, Device **out) {
    if (!is_open) return UNINITIALIZED;
    if (index >= GPUS) return INVALID_ARGUMENT;
    if (is_there("lost", (int)index)) return GPU_IS_LOST;
    *out = handle((int)index);
    return OK;
}

int nvmlDeviceGetUUID(Device *device, char *out, u32 size) {
    char uuid[24];
    snprintf(uuid, sizeof uuid, "GPU-terse-%d", device->gpu);
    int code = enter(device);
    return code ? code : text(out, size, uuid);
}

int nvmlDeviceGetName(Device *device, char *out, u32 size) {
    int code = enter(device);
    return code ? code : text(out, size, "NVIDIA H100 80GB HBM3");
}

#define CALL(name, ...) int name(Device *device, __VA_ARGS__) { int code = enter(device); if (code) return code;
#define SAYS(name, number) CALL(name, u32 *out) *out = number; return OK; }
SAYS(nvmlDeviceGetPowerUsage, 500000)
SAYS(nvmlDeviceGetPowerManagementLimit, 700000)
SAYS(nvmlDeviceGetCurrPcieLinkGeneration, 5)
CALL(nvmlDeviceGetUtilizationRates, u32 *out) out[0] = 99; out[1] = 50; return OK; }
CALL(nvmlDeviceGetTemperature, u32 sensor, u32 *out) *out = 60; return sensor ? INVALID_ARGUMENT : OK; }
CALL(nvmlDeviceGetCurrentClocksThrottleReasons, u64 *out) *out = 0x40; return OK; }

#define REFUSES(name, answer) CALL(name, void *out) (void)out; return answer; }
REFUSES(nvmlDeviceGetEnforcedPowerLimit, NOT_SUPPORTED)
REFUSES(nvmlDeviceGetTemperatureV, VERSION_MISMATCH)
REFUSES(nvmlDeviceGetCurrentClocksEventReasons, NOT_SUPPORTED)
REFUSES(nvmlDeviceGetComputeRunningProcesses_v3, NOT_SUPPORTED)
REFUSES(nvmlDeviceGetCurrPcieLinkWidth, NOT_SUPPORTED)

CALL(nvmlDeviceGetComputeRunningProcesses_v2, u32 *count, Process *out)
    u32 room = *count;
    *count = 2;
    if (room < 2) return INSUFFICIENT_SIZE;
    out[0].pid = (u32)getpid();
    out[1].pid = (u32)getppid();
    return OK;
}

CALL(nvmlDeviceGetFieldValues, int count, FieldValue *values)
    for (int i = 0; i < count; i++)
        if (values[i].id == 82) { values[i].type = 1; values[i].value = 55; } /* the temperature of the memory */
    return OK;
}

int nvmlEventSetCreate(void **set) { *set = told; return is_open ? OK : UNINITIALIZED; }
int nvmlEventSetFree(void *set) { (void)set; return OK; }
CALL(nvmlDeviceRegisterEvents, u64 types, void *set) (void)types; (void)set; return OK; }

int nvmlEventSetWait_v2(void *set, Event *out, u32 milliseconds) {
    (void)set;
    for (int gpu = 0; gpu < GPUS; gpu++)
        if (!told[gpu] && is_there("xid", gpu)) {
            told[gpu] = 1;
            *out = (Event){.device = handle(gpu), .type = 8, .data = 94};
            return OK;
        }
    usleep(1000 * milliseconds);
    return TIMEOUT;
}
