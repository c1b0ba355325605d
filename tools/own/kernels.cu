// What an NVIDIA device does where PyTorch is missing: products by cuBLAS, copies, and the start of a kernel.
// Prints a line for each: name, format, shape, rate, unit. Built and read by tools/own/gpu.py:
//   nvcc -O3 -o kernels kernels.cu -lcublas
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

static void check(int status, const char *what) {
    if (status == 0) return;
    std::fprintf(stderr, "%s failed with status %d\n", what, status);
    std::exit(1);
}

// The best of `runs` calls, after two that do not count. [s]
template <typename Call>
static double best(Call call, int runs) {
    cudaEvent_t begin, end;
    check(cudaEventCreate(&begin), "event");
    check(cudaEventCreate(&end), "event");
    float least = 1e30f;
    for (int run = -2; run < runs; ++run) {
        check(cudaEventRecord(begin), "record");
        call();
        check(cudaEventRecord(end), "record");
        check(cudaEventSynchronize(end), "synchronize");
        float took = 0.0f;
        check(cudaEventElapsedTime(&took, begin, end), "time");
        if (run >= 0 && took < least) least = took;
    }
    return least * 1e-3;
}

__global__ void nothing() {}

template <typename Value>
static void products(cublasHandle_t handle, cudaDataType_t kind, const char *name, cublasComputeType_t compute) {
    for (int side = 2048; side <= 8192; side *= 2) {
        size_t bytes = sizeof(Value) * side * static_cast<size_t>(side);
        void *a, *b, *c;
        if (cudaMalloc(&a, bytes) || cudaMalloc(&b, bytes) || cudaMalloc(&c, bytes)) return;
        check(cudaMemset(a, 0, bytes), "memset");
        check(cudaMemset(b, 0, bytes), "memset");
        const float one = 1.0f, zero = 0.0f;
        double took = best([&] {
            check(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, side, side, side, &one, a, kind, side, b, kind, side,
                               &zero, c, kind, side, compute, CUBLAS_GEMM_DEFAULT), "product");
        }, 20);
        std::printf("product %s %d^3 %.6g FLOP/s\n", name, side, 2.0 * side * side * static_cast<double>(side) / took);
        cudaFree(a), cudaFree(b), cudaFree(c);
    }
}

int main() {
    cublasHandle_t handle;
    check(cublasCreate(&handle), "cuBLAS");
    products<float>(handle, CUDA_R_32F, "fp32", CUBLAS_COMPUTE_32F_PEDANTIC);
    products<__half>(handle, CUDA_R_16F, "fp16", CUBLAS_COMPUTE_32F);
    products<__nv_bfloat16>(handle, CUDA_R_16BF, "bf16", CUBLAS_COMPUTE_32F);
    for (size_t megabytes : {16, 64, 256, 1024}) {
        size_t bytes = megabytes * 1000000;
        void *from, *to;
        if (cudaMalloc(&from, bytes) || cudaMalloc(&to, bytes)) break;
        double took = best([&] { check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice), "copy"); }, 30);
        std::printf("copy - %zu_MB %.6g bytes/s\n", megabytes, 2.0 * bytes / took);
        cudaFree(from), cudaFree(to);
    }
    double took = best([&] { for (int i = 0; i < 100; ++i) nothing<<<1, 1>>>(); }, 50);
    check(cudaGetLastError(), "kernel");
    std::printf("start - 100_empty_kernels %.6g s\n", took / 100);
    return 0;
}
