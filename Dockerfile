# Runs the demo. docker build -t lpm . && docker run --rm -v "$PWD/demo-results:/lpm/demo-results" lpm
FROM python:3.12-slim
WORKDIR /lpm
RUN pip install --no-cache-dir torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY lpm lpm
COPY lpm_paper lpm_paper
RUN pip install --no-cache-dir -c constraints.txt '.[experiments]'
ENV OMP_NUM_THREADS=1
ENTRYPOINT ["lpm"]
CMD ["reproduce", "mountain-car", "--conditions", "stochastic", "--methods", "lgn", "lpm", "rnd", "none", \
     "--seeds", "2", "--out", "demo-results"]
