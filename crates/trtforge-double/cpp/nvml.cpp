// The double of NVML (libnvidia-ml.so.1). Only what says that it is one, so far.

#include "state.h"

#include <cstring>

extern "C" {

int nvmlInit_v2() { return trtdouble::fails("nvmlInit") ? 9 : 0; }
int nvmlShutdown() { return trtdouble::fails("nvmlShutdown") ? 999 : 0; }

} // extern "C"
